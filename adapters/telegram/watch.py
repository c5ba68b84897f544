"""The one place that reads for all connections without TLS.

An epoll of its own holds every such connection as long as that lives, and of the calls that wait for an answer one
waits for this epoll and reads for all. So a call costs one write, one read and one waking of its task: no registration,
no deadline and no look before use of its own. When the one that reads has its answer, another goes on.
"""

from __future__ import annotations

import math
import select
import time
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from .direct import Direct

HAS_WATCH: Final = hasattr(select, "epoll")
_FRESH_S: Final = 0.001
"""How long a look at idle connections counts."""
_MOST_EVENTS: Final = 256


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
        if self._looked_s <= idle_since_s or time.monotonic() > self._looked_s + _FRESH_S:
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
        self._looked_s = time.monotonic()
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


__all__ = ["HAS_WATCH", "Watch"]
