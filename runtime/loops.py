"""Which event loop a call belongs to: the runtime is trio's, and an asyncio program is its host at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from ..actors.errors import BusError, Code

if TYPE_CHECKING:
    from collections.abc import Callable

    from .topology import FrozenTopology

HOST: Final = trio.lowlevel.RunVar[object]("shardline_host", None)
"""What carries this trio run, where that is an asyncio program: its `Guest`."""

_MARK: Final = "__shardline_asyncio__"


def check_trio_task() -> None:
    """Refuse an async call that is not awaited from a trio task.

    Raises:
        BusError: WRONG_LOOP.
    """
    if not trio.lowlevel.in_trio_task():
        raise BusError(
            Code.WRONG_LOOP,
            "this is awaited outside of trio: in an asyncio program open the runtime with shardline.asyncio, "
            "call the verbs of what it gives, and declare handlers with asyncio_handler",
        )


def mark_asyncio(function: Callable[..., object]) -> None:
    """Note that a handler runs on the host's loop."""
    function.__dict__[_MARK] = True


def is_marked_asyncio(function: Callable[..., object]) -> bool:
    """Whether a handler runs on the host's loop."""
    return _MARK in getattr(function, "__dict__", {})


def check_handlers(topology: FrozenTopology) -> None:
    """Refuse handlers that need an asyncio program round the runtime where there is none.

    Raises:
        BusError: WRONG_LOOP.
    """
    if HOST.get() is not None:
        return
    for topic, by_channel in topology.handlers.items():
        if any(is_marked_asyncio(spec.function) for spec in by_channel.values()):
            raise BusError(
                Code.WRONG_LOOP,
                f"the handler of {topic} is an asyncio one: open the runtime with shardline.asyncio",
                topic=topic,
            )


__all__ = ["HOST", "check_handlers", "check_trio_task", "is_marked_asyncio", "mark_asyncio"]
