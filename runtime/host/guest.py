"""The trio run inside an asyncio loop: one for a loop, shared by its runtimes, there while one of them is open.

running -> leaving      the last runtime has ended
leaving -> over         the trio run has ended; the thread is free for another one
running -> lost         the loop was closed under it: nothing moves any more, as after a crash
lost    -> over         the next one that opens a runtime in this thread lets it end, without a loop
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Awaitable, Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, cast

import structlog
import trio

from ...actors.errors import BusError, Code
from ..loops import HOST
from .crossing import HostTask, TrioCall, tell, wait_through
from .interrupts import Interrupts

if TYPE_CHECKING:
    from contextvars import ContextVar

T = TypeVar("T")

_LOST_LIMIT_S: Final = 10.0


class Tenant(Protocol):
    """What lives in a guest run: one runtime."""

    host_tasks: set[HostTask[object]]
    calls: set[TrioCall[object]]

    def hurry(self) -> None:
        """Stop, and at once."""
        ...

    def lost(self, error: BaseException) -> None:
        """The run has ended, and with it whatever the tenant had there."""
        ...


tenant: ContextVar[Tenant | None] = contextvars.ContextVar("shardline_tenant", default=None)
"""The runtime that a task belongs to, on both loops."""


class Guest:
    """The trio run of one asyncio loop.

    Attributes:
        loop: The host.
        over: Done once the run has ended.
        is_leaving: No runtime is left in it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.ready: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()
        self.is_leaving = False
        self._is_over = False
        self._leave = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._calls: set[TrioCall[object]] = set()
        self._tenants: set[Tenant] = set()
        # Steps of trio that the loop was asked to run: where it no longer does, they are still here.
        self._steps: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._context = contextvars.copy_context()
        self._interrupts = Interrupts(loop, self._hurry)

    @property
    def is_interrupted(self) -> bool:
        """Ctrl-C ends the program: whatever is cancelled now is cancelled for that."""
        return self._interrupts.has_ended_run

    def start(self) -> None:
        """Begin the trio run; it goes on with the loop."""
        self._interrupts.watch()
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._soon_threadsafe,
            run_sync_soon_not_threadsafe=self._soon,
            done_callback=self._ended,
            host_uses_signal_set_wakeup_fd=True,
        )
        HOST.set(self)

    def enter(self, resident: Tenant) -> None:
        """Keep the run while a runtime needs it."""
        self._tenants.add(resident)

    def leave(self, resident: Tenant) -> bool:
        """Let the run end with its last runtime, and say whether this was it."""
        self._tenants.discard(resident)
        if not self._tenants:
            self.is_leaving = True
            if not self._is_over:
                self._leave.set()
        return self.is_leaving

    def spawn(self, run: Callable[[], Awaitable[None]]) -> None:
        """Start a trio task, in the context of the caller.

        Raises:
            BusError: BUS_CLOSED.
        """
        if self._nursery is None or self.is_leaving:
            raise BusError(Code.BUS_CLOSED, "the runtime has ended")
        self._nursery.start_soon(run)

    async def call(self, call: Callable[[], Awaitable[T]], among: set[TrioCall[object]]) -> T:
        """From an asyncio task: run something on the trio side and wait for its end. See `TrioCall.wait`.

        Args:
            call: Awaited in a trio task.
            among: Where the call is to be found while it is under way.
        Raises:
            BusError: WRONG_LOOP; BUS_CLOSED.
        """
        self.check_host()
        crossing = TrioCall(call)
        self.spawn(crossing.run)
        kept = cast("TrioCall[object]", crossing)
        self._calls.add(kept)
        among.add(kept)
        try:
            return await crossing.wait()
        finally:
            self._calls.discard(kept)
            among.discard(kept)

    async def on_host(self, call: Callable[[], Awaitable[T]]) -> T:
        """From a trio task: run something as an asyncio task and wait for its end. See `HostTask.wait`."""
        task = HostTask(self, call)
        resident, kept = tenant_here(), cast("HostTask[object]", task)
        if self.loop.is_closed():
            await trio.sleep_forever()
        resident.host_tasks.add(kept)
        try:
            return await task.wait()
        finally:
            resident.host_tasks.discard(kept)

    def check_host(self) -> None:
        """Refuse a call that does not come from a task or callback of the host's loop.

        Raises:
            BusError: WRONG_LOOP.
        """
        if trio.lowlevel.in_trio_task():
            raise BusError(
                Code.WRONG_LOOP,
                "this is for asyncio and was awaited from a trio task: take `native` there, or declare the handler "
                "with asyncio_handler",
            )
        if running_loop() is not self.loop:
            raise BusError(
                Code.WRONG_LOOP,
                "this runtime lives on another asyncio loop: reach it with asyncio.run_coroutine_threadsafe",
            )

    def bury(self) -> None:
        """Let a run whose loop is closed come to its end, on this thread; what was under way goes back on disk.

        Raises:
            BusError: BUS_CLOSED, it does not end.
        """
        due_s = time.monotonic() + _LOST_LIMIT_S
        structlog.get_logger("shardline").error("host.loop_lost", runtimes=len(self._tenants))
        self._hurry()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
        while not self._is_over:
            self._lose_host_tasks()
            try:
                step = self._steps.get(timeout=max(0.0, due_s - time.monotonic()))
            except Empty:
                raise BusError(
                    Code.BUS_CLOSED,
                    "an asyncio loop of this thread was closed while a runtime was open, which does not end: "
                    "start a new process",
                ) from None
            step()

    def _hurry(self) -> None:
        for resident in list(self._tenants):
            resident.hurry()

    def _lose_host_tasks(self) -> None:
        for resident in self._tenants:
            for task in list(resident.host_tasks):
                task.lose()

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            tell(self.ready)
            await self._leave.wait()
            nursery.cancel_scope.cancel()

    def _ended(self, outcome: _Outcome) -> None:
        self._is_over = True
        self._interrupts.leave()
        error: BaseException = BusError(Code.BUS_CLOSED, "the runtime has ended")
        try:
            outcome.unwrap()
        except BaseException as raised:
            # The trio run's own end, Ctrl-C above all: each runtime's user gets it.
            error = only_of(raised)
        for call in list(self._calls):
            call.end()
        for resident in list(self._tenants):
            resident.lost(error)
        tell(self.ready)
        tell(self.over)

    def _soon(self, step: Callable[[], object]) -> None:
        self._steps.put(step)
        if not self.loop.is_closed():
            self.loop.call_soon(self._step, context=self._context)

    def _soon_threadsafe(self, step: Callable[[], object]) -> None:
        self._steps.put(step)
        try:
            self.loop.call_soon_threadsafe(self._step, context=self._context)
        except RuntimeError:
            # The loop is closed; there is no way to ask that has no gap.
            if not self.loop.is_closed():
                raise

    def _step(self) -> None:
        self._interrupts.is_in_step = True
        try:
            self._steps.get_nowait()()
        finally:
            self._interrupts.is_in_step = False


class _Outcome(Protocol):
    def unwrap(self) -> object: ...


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The asyncio loop that runs in this thread, if one does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def host_loop() -> asyncio.AbstractEventLoop:
    """The asyncio loop of the calling task.

    Raises:
        BusError: WRONG_LOOP, it is no asyncio task.
    """
    loop = running_loop()
    if loop is None or trio.lowlevel.in_trio_task():
        raise BusError(
            Code.WRONG_LOOP,
            "shardline.asyncio is called from asyncio tasks: in trio open a Runtime, in no loop call run",
        )
    return loop


def tenant_here() -> Tenant:
    """The runtime that this trio task is part of.

    Raises:
        BusError: WRONG_LOOP, none of shardline.asyncio.
    """
    resident = tenant.get()
    if resident is None:
        raise BusError(Code.WRONG_LOOP, "this task belongs to no runtime of shardline.asyncio")
    return resident


def guest_here() -> Guest | None:
    """The guest run that this thread is in, from either side."""
    if not trio.lowlevel.in_trio_run():
        return None
    found = HOST.get()
    return found if isinstance(found, Guest) else None


async def find_guest(resident: Tenant) -> Guest:
    """The guest run of the running loop, begun if there is none; `resident` keeps it.

    Raises:
        BusError: WRONG_LOOP.
    """
    loop = host_loop()
    while True:
        guest = guest_here()
        if guest is None:
            if trio.lowlevel.in_trio_run():
                raise BusError(
                    Code.WRONG_LOOP, "this thread runs a trio program of its own: open a Runtime in that"
                )
            guest = Guest(loop)
            guest.start()
        elif guest.loop.is_closed():
            guest.bury()
            continue
        elif guest.loop is not loop:
            raise BusError(
                Code.WRONG_LOOP,
                "another asyncio loop of this thread has an open runtime: close that first",
            )
        if guest.is_leaving:
            await asyncio.wait({guest.over})
            continue
        guest.enter(resident)
        try:
            await asyncio.wait({guest.ready})
        except BaseException:
            if guest.leave(resident):
                await wait_through(guest.over, _nothing)
            raise
        return guest


def _nothing() -> None:
    """It is leaving already."""


def only_of(error: BaseException) -> BaseException:
    """The one exception of a group, however deep; else the group."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return only_of(group.exceptions[0]) if len(group.exceptions) == 1 else group


__all__ = [
    "Guest",
    "Tenant",
    "find_guest",
    "guest_here",
    "host_loop",
    "only_of",
    "running_loop",
    "tenant",
    "tenant_here",
]
