"""Hooks around turns and sends, for traces. Off unless one is given: then nothing is called and nothing is made."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..actors.message import BusMessage
    from .channel import Outbound


class Tracing(Protocol):
    """What is entered around each run of a handler and each call of a channel.

    What ends a turn or a send passes through as it is: an exception, a cancellation.
    """

    def turn(self, message: BusMessage, claim: int) -> AbstractContextManager[object]:
        """Around one run of a handler.

        Args:
            message: What it handles.
            claim: Which run of this message it is.
        """
        ...

    def send(self, outbound: Outbound) -> AbstractContextManager[object]:
        """Around one call of a channel's `send`."""
        ...


__all__ = ["Tracing"]
