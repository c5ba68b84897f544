"""Ctrl-C in a program whose loop carries a trio run.

asyncio's own handler may raise KeyboardInterrupt wherever the thread is. In the middle of a step that would end the
trio run on the spot, and with it every runtime; between two callbacks of the loop it would lose the next one, which
the loop has taken and not begun, and a lost step is a trio run that stands still for ever. In both places it comes one
callback later. In a task's own code it comes at once: that is how a task that blocks is ended. Where nobody handles
Ctrl-C, trio takes it and keeps its steps whole by itself.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


class Interrupts:
    """The handler round the program's own.

    Args:
        loop: The host.
        ended: Called by the loop once Ctrl-C has ended `asyncio.run`.

    Attributes:
        is_in_step: A step of trio runs.
        has_ended_run: Ctrl-C has ended `asyncio.run`, which cancels all tasks now.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
        self.is_in_step = False
        self.has_ended_run = False
        self._loop = loop
        self._ended = ended
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
        handler = self._handler
        if handler is None or signal.getsignal(signal.SIGINT) != self._interrupted:
            return
        if self.has_ended_run:
            # `asyncio.run` takes its handler away when it is left; here it found this one, and the next
            # `asyncio.run` would be served by the handler of the one that is over.
            handler = signal.default_int_handler
        signal.signal(signal.SIGINT, handler)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if self._is_in_task() or not self._loop.is_running():
            self._handle(number, frame)
        else:
            self._loop.call_soon_threadsafe(self._handle, number, None)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._handler is None:
            return
        try:
            self._handler(number, frame)
        except KeyboardInterrupt:
            # Other programs may catch it and let the loop go on.
            if _is_of_runner(self._handler) and self._loop.is_running():
                self.has_ended_run = True
                self._loop.call_soon_threadsafe(self._ended)
            raise

    def _is_in_task(self) -> bool:
        return not self.is_in_step and asyncio.current_task(self._loop) is not None


def _is_of_runner(handler: Handler) -> bool:
    """Whether it is what `asyncio.run` puts in place: a partial of a runner's method."""
    return isinstance(handler, partial) and isinstance(
        getattr(handler.func, "__self__", None), asyncio.Runner
    )


__all__ = ["Interrupts"]
