"""The connections to one server: the one used last is used next, and a request has one of its own while it runs."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Final

import trio

from .line import Line, LineBroken, Place, open_line

CONNECT_S: Final = 10.0
WRITE_S: Final = 20.0
POOL_S: Final = 20.0
CONNECTIONS: Final = 32


class LineMissing(Exception):
    """There is no connection: no byte of the request has left."""


class Lines:
    """Up to `CONNECTIONS` connections, made when they are needed. Close them with `close`.

    Args:
        place: The server.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._free = trio.Semaphore(CONNECTIONS)
        self._idle: deque[Line] = deque()

    async def ask(self, target: bytes, body: bytes, *, read_s: float) -> tuple[int, bytes]:
        """Make one request; see `Line.ask`.

        Raises:
            LineMissing: Nothing has left.
            LineBroken: Something may have left, and there is no complete answer.
        """
        await self._take_turn()
        try:
            line = self._idle_line() or await self._new_line()
            answer = await line.ask(target, body, write_s=WRITE_S, read_s=read_s)
            if line.is_open:
                self._idle.append(line)
                self._close_stale()
            return answer
        finally:
            self._free.release()

    def close(self) -> None:
        """Close the unused ones; a later request opens new ones."""
        while self._idle:
            self._idle.pop().close()

    async def _take_turn(self) -> None:
        with contextlib.suppress(trio.WouldBlock):
            self._free.acquire_nowait()
            return
        with trio.move_on_after(POOL_S):
            await self._free.acquire()
            return
        raise LineMissing("all connections are in use")

    def _idle_line(self) -> Line | None:
        now_s = trio.current_time()
        while self._idle:
            line = self._idle.pop()
            if not line.is_stale(now_s) and not line.is_dropped():
                return line
            line.close()
        return None

    def _close_stale(self) -> None:
        now_s = trio.current_time()
        while self._idle[0].is_stale(now_s):
            self._idle.popleft().close()

    async def _new_line(self) -> Line:
        with trio.move_on_after(CONNECT_S):
            try:
                return await open_line(self._place)
            except (OSError, trio.BrokenResourceError) as error:
                # A failed handshake is here too: the request follows it.
                raise LineMissing(type(error).__name__) from None
        raise LineMissing("no connection in time")


__all__ = ["CONNECTIONS", "CONNECT_S", "POOL_S", "WRITE_S", "LineBroken", "LineMissing", "Lines"]
