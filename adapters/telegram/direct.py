"""A connection without TLS: over a socket itself, and read by the watch (`watch.py`)."""

from __future__ import annotations

import math
import socket as sockets
import time

import trio

from .failures import Broken, NotConnected
from .reader import READ_BYTES, Reader
from .watch import Watch


class Direct:
    """As `Connection`, over a socket itself. Whatever comes while no answer is waited for makes it useless.

    Args:
        socket: Connected; does not block.
        watch: Reads for it.
    """

    def __init__(self, socket: sockets.socket, watch: Watch) -> None:
        socket.setblocking(False)
        self.socket = socket
        self.idle_since_s = math.nan
        """Since when it waits for its next request, monotonic: trio's clock is another in each loop. Not a number
        where it takes no more."""
        self.due_s = math.inf
        """When the call has waited for too long."""
        self.is_settled = True
        """No answer is waited for: it is there, or none will come."""
        self.task: trio.lowlevel.Task | None = None
        """Who is to be woken then."""
        self._broken: str | None = None
        self._is_spoilt = False
        self._read_s = self._last_s = math.inf
        self._reader = Reader()
        self._watch = watch
        watch.add(self)

    @property
    def is_reusable(self) -> bool:
        """Whether the last answer was whole, and the server keeps the connection."""
        return not math.isnan(self.idle_since_s)

    async def ask(
        self, request: bytes, *, write_s: float, read_s: float, whole_s: float
    ) -> tuple[int, bytes]:
        """See `Connection.ask`."""
        self.idle_since_s = math.nan
        reader = self._reader
        reader.begin()
        # Behind this the request leaves, whatever becomes of the call.
        await trio.lowlevel.checkpoint_if_cancelled()
        self._broken = None
        self._read_s, self.due_s = read_s, math.inf
        self.is_settled = False
        try:
            try:
                sent = self._send(request)
            except OSError as error:
                raise NotConnected(type(error).__name__) from None
            if sent < len(request):
                await self._send_rest(memoryview(request)[sent:], write_s)
            now_s = trio.current_time()
            self._last_s = now_s + read_s + whole_s
            self.due_s = now_s + read_s
            await self._watch.wait(self)
        finally:
            self.is_settled = True
        if self._broken is not None:
            raise Broken(self._broken)
        if reader.is_kept and not self._is_spoilt:
            self.idle_since_s = time.monotonic()
        return reader.status, reader.body()

    async def is_quiet(self) -> bool:
        """Whether an idle connection has nothing to read: no end, and no word that nobody asked for."""
        self._watch.look_since(self.idle_since_s)
        return not self._is_spoilt

    async def aclose(self) -> None:
        """Close it, at once."""
        self.idle_since_s = math.nan
        self._watch.remove(self)
        self.socket.close()

    def readable(self) -> None:
        """Read what has come; the watch calls it."""
        if self.is_settled:
            # It stays readable, and nobody will read it.
            self._is_spoilt = True
            self._watch.remove(self)
            return
        reader = self._reader
        try:
            reader.take(self.socket.recv(READ_BYTES))
        except BlockingIOError:
            return
        except OSError as error:
            self.settle(type(error).__name__)
        except Broken as error:
            self.settle(str(error))
        else:
            if reader.is_complete:
                self.settle(None)
            elif self.due_s < math.inf:
                self.due_s = min(trio.current_time() + self._read_s, self._last_s)

    def settle(self, broken: str | None) -> None:
        """End the wait for the answer.

        Args:
            broken: Why there is none.
        """
        self._broken = broken
        self.is_settled = True
        self.wake()

    def wake(self) -> None:
        """Wake the task that waits, if it is not the one that reads."""
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _send(self, data: bytes | memoryview) -> int:
        """Send what can go at once; how many bytes that was."""
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0

    async def _send_rest(self, rest: memoryview, write_s: float) -> None:
        """Raises:
        Broken: It takes too long.
        """
        try:
            with trio.fail_after(write_s):
                while rest:
                    await trio.lowlevel.wait_writable(self.socket)
                    rest = rest[self._send(rest) :]
        except trio.TooSlowError as error:
            raise Broken(type(error).__name__) from None
        except OSError:
            # A server may say why it closes before it has read all of a request.
            return


__all__ = ["Direct"]
