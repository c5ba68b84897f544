"""The signals that stop a program: the first in good order, the second at once, the third where it stands."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import trio

from ..actors.system import say_at_once, stopping_signals

_LAST: Final = 3
_CANCELLED_WORK: Final = 3
_SAID: Final = b"shardline: ended where it stood, by a third signal; what was under way counts as a crash\n"
_STANDARD_ERROR: Final = 2

Handler = Callable[[int, FrameType | None], object]


@contextmanager
def stop_signals(*, exit_code: int = _CANCELLED_WORK) -> Generator[AsyncIterator[int]]:
    """Receive SIGINT, SIGTERM, and SIGHUP unless somebody (`nohup`) has it ignored; in the main thread only.

    A loop that a handler blocks receives nothing, so the third signal ends the process at once, whatever it does.

    Args:
        exit_code: Of that end.
    """
    numbers = stopping_signals()
    with trio.open_signal_receiver(*numbers) as received:
        taken = {number: signal.getsignal(number) for number in numbers}
        seen = 0

        def take(number: int, frame: FrameType | None) -> None:
            nonlocal seen
            seen += 1
            if seen >= _LAST:
                # What it blocks in may be a full standard error.
                say_at_once(_STANDARD_ERROR, _SAID)
                os._exit(exit_code)
            handler = taken[signal.Signals(number)]
            if callable(handler):
                handler(number, frame)

        for number in numbers:
            signal.signal(number, take)
        try:
            yield received
        finally:
            for number, handler in taken.items():
                signal.signal(number, handler)


__all__ = ["stop_signals"]
