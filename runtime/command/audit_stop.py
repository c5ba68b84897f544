"""Ctrl-C at a command that runs Spark: noted, and looked at between calls to Java."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event
from types import FrameType

from ...actors.system import stopping_signals


class Asked:
    """Whether a signal has asked the command to end."""

    def __init__(self) -> None:
        self._event = Event()
        self._before = {number: signal.getsignal(number) for number in stopping_signals()}

    def is_set(self) -> bool:
        """Whether one came."""
        return self._event.is_set()

    def listen(self) -> None:
        """Take the signals; once more after Spark has started, which takes Ctrl-C for itself."""
        if not self.is_set():
            for number in self._before:
                signal.signal(number, self._note)

    def leave(self) -> None:
        """Give the signals back to who had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._event.set()
        for number in self._before:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def asked_to_stop() -> Generator[Asked]:
    """Set by the first signal; the second one ends the program at once.

    An exception out of a handler, as Spark's own raises, would tear the answer that this thread waits for from Java.
    """
    asked = Asked()
    asked.listen()
    try:
        yield asked
    finally:
        asked.leave()


__all__ = ["Asked", "asked_to_stop"]
