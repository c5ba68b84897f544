"""Connections without TLS, and the one place that reads for all of them.

An epoll of its own holds every such connection as long as that lives, and of the calls that wait for an answer one
waits for this epoll and reads for all. So a call costs one write, one read and one waking of its task: no registration,
no deadline and no look before use of its own. When the one that reads has its answer, another goes on.
"""

from __future__ import annotations

import math
import select
import socket as sockets
from typing import Final

import trio

from .reader import READ_BYTES, Broken, Reader

HAS_WATCH: Final = hasattr(select, "epoll")
_FRESH_S: Final = 0.001
"""How long a look at idle connections counts."""
_MOST_EVENTS: Final = 256


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
        """Since when it waits for its next request, on trio's clock; not a number where it takes no more."""
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
            sent = self._send(request)
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
            self.idle_since_s = trio.current_time()
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
        except OSError:
            # A server may say why it closes before it has read all of a request.
            return len(data)

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


class Watch:
    """Reads for all connections whose calls wait. Its epoll lives as long as it knows any."""

    def __init__(self) -> None:
        self._epoll: select.epoll | None = None
        self._known: dict[int, Direct] = {}
        self._waiting: dict[Direct, None] = {}
        self._reads: Direct | None = None
        self._heir: Direct | None = None
        self._alarm = trio.CancelScope()
        self._due_s = math.inf
        """Not after the first time limit of the calls that wait; when the alarm rings."""
        self._looked_s = -math.inf

    def add(self, connection: Direct) -> None:
        """Look at it from now on."""
        number = connection.socket.fileno()
        self._epoll = self._epoll or select.epoll()
        self._epoll.register(number, select.EPOLLIN)
        self._known[number] = connection

    def remove(self, connection: Direct) -> None:
        """Look at it no more; a second time does nothing."""
        number = connection.socket.fileno()
        if self._known.get(number) is connection:
            del self._known[number]
            if self._epoll is not None:
                self._epoll.unregister(number)
            if not self._known and self._reads is None:
                self._close()

    def look_since(self, idle_since_s: float) -> None:
        """See that there was a look since then, and a short while ago: one serves for many calls."""
        if self._looked_s <= idle_since_s or trio.current_time() > self._looked_s + _FRESH_S:
            self._look()
            if self._reads is not None and self._reads.is_settled:
                # Its answer is read already: what it waits for would not come again.
                self._alarm.cancel()

    async def wait(self, connection: Direct) -> None:
        """Wait until a connection has settled."""
        self._waiting[connection] = None
        try:
            while not connection.is_settled:
                if self._reads is None:
                    await self._read(connection)
                else:
                    await self._park(connection)
        finally:
            del self._waiting[connection]
            if self._reads is None and self._heir is None and self._waiting:
                self._pass_on()

    async def _read(self, own: Direct) -> None:
        """Read for all until its own answer is there."""
        self._reads = own
        try:
            while not own.is_settled:
                self._due_s = self._next_due_s()
                with trio.CancelScope(deadline=self._due_s) as self._alarm:
                    while not own.is_settled:
                        await trio.lowlevel.wait_readable(self._number())
                        self._look()
                if self._alarm.cancelled_caught:
                    # What has come in time counts, however late it is read.
                    self._look()
                    self._settle_late()
        finally:
            self._reads = None
            if not self._known:
                self._close()

    async def _park(self, connection: Direct) -> None:
        due_s = connection.due_s
        if due_s < self._due_s:
            self._due_s = self._alarm.deadline = due_s
        connection.task = trio.lowlevel.current_task()

        def leave(_: object) -> trio.lowlevel.Abort:
            connection.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)
        if self._heir is connection:
            self._heir = None

    def _pass_on(self) -> None:
        """Let another one read: the youngest, whose answer will be the last."""
        for other in reversed(self._waiting):
            if other.task is not None:
                self._heir = other
                other.wake()
                return

    def _look(self) -> None:
        self._looked_s = trio.current_time()
        known = self._known
        for number, _ in () if self._epoll is None else self._epoll.poll(0, _MOST_EVENTS):
            connection = known.get(number)
            if connection is not None:
                connection.readable()

    def _number(self) -> int:
        if self._epoll is None:
            raise AssertionError("a connection that waits is known")
        return self._epoll.fileno()

    def _close(self) -> None:
        epoll, self._epoll = self._epoll, None
        if epoll is not None:
            epoll.close()

    def _settle_late(self) -> None:
        now_s = trio.current_time()
        for connection in self._waiting:
            if connection.due_s <= now_s and not connection.is_settled:
                connection.settle("TooSlowError")

    def _next_due_s(self) -> float:
        return min((one.due_s for one in self._waiting), default=math.inf)


__all__ = ["HAS_WATCH", "Direct", "Watch"]
