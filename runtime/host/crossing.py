"""Calls from one loop to the other, and how their ends and cancellations come back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import trio

from ...actors.errors import BusError, Code

if TYPE_CHECKING:
    from .guest import Guest

T = TypeVar("T")


class TrioCall(Generic[T]):
    """A call that an asyncio task makes into trio, and waits for."""

    __slots__ = ("_call", "_value", "_waiter", "error", "is_done", "is_over", "scope")

    def __init__(self, call: Callable[[], Awaitable[T]]) -> None:
        self.scope = trio.CancelScope()
        self.error: BaseException | None = None
        self.is_done = False
        """It returned."""
        self.is_over = False
        """It returned, raised or was cancelled."""
        self._call = call
        self._value: T | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """On the trio side."""
        try:
            with self.scope:
                self._value = await self._call()
                self.is_done = True
        except trio.Cancelled:
            raise
        except BaseException as error:
            # It ends the asyncio task that called, not the loop that carried the call.
            self.error = error
        finally:
            self.end()

    def end(self) -> None:
        """It is over; whoever waits goes on."""
        self.is_over = True
        if self._waiter is not None:
            tell(self._waiter)

    async def wait(self) -> T:
        """On the asyncio side: wait until it has really ended, also where the waiting task is cancelled.

        Raises:
            asyncio.CancelledError: the waiting task was cancelled; the call has ended, perhaps with a result.
            BusError: BUS_CLOSED, the runtime ended first.
        """
        cancelled: asyncio.CancelledError | None = None
        while not self.is_over:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as error:
                cancelled = error
                self.scope.cancel()
        if cancelled is not None:
            raise cancelled from self.error
        if self.error is not None:
            raise self.error
        if not self.is_done:
            raise BusError(Code.BUS_CLOSED, "the runtime has ended")
        return cast("T", self._value)


class HostTask(Generic[T]):
    """An asyncio task that a trio task has started, and waits for.

    Args:
        guest: Whose loop it runs on.
        call: What it runs.
    """

    __slots__ = ("_call", "_error", "_guest", "_parked", "_task", "_value", "is_lost")

    def __init__(self, guest: Guest, call: Callable[[], Awaitable[T]]) -> None:
        self.is_lost = False
        self._guest = guest
        self._call = call
        self._value: T | None = None
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None
        self._parked: trio.lowlevel.Task | None = None

    async def wait(self) -> T:
        """On the trio side: start it and wait until it has really ended; a cancellation is carried over once.

        Raises:
            BusError: HANDLER_FAILED, somebody else cancelled it.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._parked = trio.lowlevel.current_task()
        self._start()

        def abort(_: object) -> trio.lowlevel.Abort:
            if self._task is not None:
                self._task.cancel("the turn or the runtime ends")
            return trio.lowlevel.Abort.FAILED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if self.is_lost:
            # Nobody knows how it would have ended, so what waits for it must not go on: its runtime is cut off.
            await trio.sleep_forever()
        if self._task is not None and self._task.cancelled():
            await trio.lowlevel.checkpoint_if_cancelled()
            if self._guest.is_interrupted:
                # The program is left, and its end cancels every task: the stop that follows gives the turn back.
                await trio.sleep_forever()
            raise BusError(Code.HANDLER_FAILED, "its asyncio task was cancelled from outside")
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    def lose(self) -> None:
        """Leave the asyncio task behind, which does not end; the trio task goes on without it."""
        self.is_lost = True
        self._wake()

    def _start(self) -> None:
        loop = self._guest.loop
        if loop.get_task_factory() is None:
            self._begin()
        else:
            # One that starts tasks at once would run asyncio code inside of a trio task.
            loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._task = self._guest.loop.create_task(self._run())
        self._task.add_done_callback(self._ended)

    async def _run(self) -> None:
        try:
            self._value = await self._call()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # SystemExit and the like end the runtime in good order, as they do under trio; asyncio would stop at once.
            self._error = error

    def _ended(self, _: object) -> None:
        self._wake()

    def _wake(self) -> None:
        parked, self._parked = self._parked, None
        if parked is not None:
            trio.lowlevel.reschedule(parked)


def tell(waiter: asyncio.Future[None]) -> None:
    """Let an asyncio task go on, unless it, or its loop, is gone."""
    if not waiter.done() and not waiter.get_loop().is_closed():
        waiter.set_result(None)


async def wait_through(waiter: asyncio.Future[None], cancelled: Callable[[], None]) -> None:
    """Wait for a future that must not be left, and raise a cancellation afterwards.

    Args:
        waiter: Never cancelled by this.
        cancelled: Called at each cancellation.
    """
    late: asyncio.CancelledError | None = None
    while not waiter.done():
        try:
            await asyncio.wait({waiter})
        except asyncio.CancelledError as error:
            late = error
            cancelled()
    if late is not None:
        raise late


__all__ = ["HostTask", "TrioCall", "tell", "wait_through"]
