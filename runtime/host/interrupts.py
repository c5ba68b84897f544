"""Ctrl-C while a step of trio runs on the host's loop.

asyncio's own handler may raise KeyboardInterrupt wherever the thread is. In the middle of a step that would end the
trio run on the spot, and with it every runtime, so there it comes one callback later. Where nobody handles Ctrl-C,
trio takes it and keeps its steps whole by itself.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


class Interrupts:
    """The handler round the program's own.

    Args:
        loop: The host.

    Attributes:
        is_in_step: A step of trio runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_in_step = False
        self._loop = loop
        self._handler: Handler | None = None

    def watch(self) -> None:
        """Begin, where this is the main thread and the program has a handler."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and handler is not signal.default_int_handler:
            self._handler = handler
            signal.signal(signal.SIGINT, self._interrupted)

    def leave(self) -> None:
        """End; what somebody else has put in place meanwhile stays."""
        handler, self._handler = self._handler, None
        if handler is not None and signal.getsignal(signal.SIGINT) == self._interrupted:
            signal.signal(signal.SIGINT, handler)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self._handler is None:
            return
        if self.is_in_step:
            self._loop.call_soon_threadsafe(self._handler, number, None)
        else:
            self._handler(number, frame)


__all__ = ["Interrupts"]
