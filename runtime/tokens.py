"""The tokens of the edges: how much may be in flight at once, and who waits for room.

A token is taken before a message is handed to the journal and given back when its work is over. Rows that come back
from disk take theirs without asking (`take_reloaded`), so the count may fall below zero; edges then wait until it is
positive again. Waiters are served in the order they came, and nobody takes a token past them.
"""

from __future__ import annotations

from collections import OrderedDict

import attrs
import trio

from ..actors.errors import BusError, Code


@attrs.define(eq=False)
class _Waiter:
    task: trio.lowlevel.Task
    granted: bool = False


class Tokens:
    """A first-come-first-served pool.

    Args:
        max_inflight: Tokens there are, >= 1.
    """

    __slots__ = ("_free", "_is_closed", "_waiters", "max_inflight")

    def __init__(self, max_inflight: int) -> None:
        if max_inflight < 1:
            raise BusError(
                Code.INVALID_MESSAGE, "max_inflight must be >= 1", field="max_inflight", value=max_inflight
            )
        self.max_inflight = max_inflight
        self._free = max_inflight
        self._is_closed = False
        self._waiters: OrderedDict[_Waiter, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Tokens to be had; below zero while reloaded rows hold more than there are."""
        return self._free

    @property
    def waiting(self) -> int:
        """Tasks that wait for a token."""
        return len(self._waiters)

    @property
    def lane_share(self) -> int:
        """The most tokens one lane may hold."""
        return max(1, self.max_inflight // 8)

    def try_take(self) -> bool:
        """Take a token if one is free. Never waits.

        Raises:
            BusError: BUS_CLOSED.
        """
        if self._is_closed:
            raise _closed()
        # A free token has no waiters: `give_back` hands it on.
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    async def take(self, timeout_s: float | None) -> None:
        """Wait for a token. A cancelled wait takes none.

        Args:
            timeout_s: How long to wait, seconds; None for as long as it takes, 0 or less not at all.
        Raises:
            BusError: QUEUE_FULL, no token in that time; BUS_CLOSED, closed before or while waiting.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.try_take():
            await trio.lowlevel.cancel_shielded_checkpoint()
            return
        if timeout_s is None:
            await self._wait_turn()
            return
        if timeout_s <= 0:
            raise self._full(timeout_s)
        with trio.move_on_after(timeout_s) as scope:
            await self._wait_turn()
        if scope.cancelled_caught:
            raise self._full(timeout_s)

    def take_reloaded(self, n: int = 1) -> None:
        """Take `n` tokens for rows that are in memory again, whether or not any are free."""
        self._free -= n

    def give_back(self, n: int = 1) -> None:
        """Give `n` tokens back; the longest waiting tasks get them.

        Raises:
            ValueError: more than were taken.
        """
        if self._free + n > self.max_inflight:
            raise ValueError(f"{n} tokens given back, {self.max_inflight - self._free} are taken")
        self._free += n
        while self._free > 0 and self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            waiter.granted = True
            self._free -= 1
            trio.lowlevel.reschedule(waiter.task)

    def close(self) -> None:
        """Refuse everybody who waits or comes from now on. What was taken can still be given back."""
        self._is_closed = True
        while self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            trio.lowlevel.reschedule(waiter.task)

    async def _wait_turn(self) -> None:
        waiter = _Waiter(trio.lowlevel.current_task())
        self._waiters[waiter] = None

        def leave(_: object) -> trio.lowlevel.Abort:
            # A cancelled task must not stay in line: rescheduling it later would end the process.
            del self._waiters[waiter]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)
        if not waiter.granted:
            raise _closed()

    def _full(self, timeout_s: float) -> BusError:
        return BusError(
            Code.QUEUE_FULL,
            f"{self.max_inflight} messages are in flight",
            max_inflight=self.max_inflight,
            timeout_s=timeout_s,
        )


def _closed() -> BusError:
    return BusError(Code.BUS_CLOSED, "the runtime is closing")
