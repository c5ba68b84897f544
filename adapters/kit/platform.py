"""The far side of a channel, as the author of an adapter plays it for the kit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from ..base import Adapter


class Platform(Protocol):
    """What people write into and read from: a folder, a fake server.

    It outlives the adapters that are opened on it, and keeps what was not acknowledged, as the real one does.

    Attributes:
        addresses: Two conversations that exist, or more.
    """

    @property
    def addresses(self) -> Sequence[str]: ...

    def open(self) -> Adapter:
        """A new adapter, as the next process makes it; the one before is not used any more."""
        ...

    async def say(self, address: str, text: str) -> None:
        """Somebody writes one line; returns when the platform has it, whether or not an adapter is there."""
        ...

    def delivered(self) -> Sequence[tuple[str, str]]:
        """What the platform has got from adapters: (address, text), in order."""
        ...

    def cut(self) -> None:
        """From now on sends fail in an ordinary way: no connection, no such folder."""
        ...


MakePlatform = Callable[[Path], AbstractAsyncContextManager[Platform]]
"""Makes a platform of its own in an empty folder, and ends it."""

__all__ = ["MakePlatform", "Platform"]
