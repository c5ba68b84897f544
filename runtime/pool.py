"""A pool of long-lived worker tasks with slots, and a fair line for them.

A slot is reserved before work is claimed on disk, and given back when the work has ended; whoever finds none free
stands in line. Workers outlive jobs and wake each other in a chain, so a burst of jobs costs one wake-up. Each worker
keeps one cancel scope for many jobs, and one alarm watches the time limits of all: a scope with a deadline for each
job would cost a fifth of the throughput.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, Protocol, TypeVar, cast

import trio

from ..actors.leaves import leaves
from .histogram import Histogram

_CHECKPOINT_EVERY = 32


class Job(Protocol):
    """One piece of work: `ended` or `dropped` is called exactly once, also when the pool is cancelled."""

    timeout_s: float
    due_s: float
    """Set by the pool when the job begins: when its time is over, in seconds of `trio.current_time()`."""

    def cut_off(self) -> None:
        """Know that it was cancelled, by its time limit or by `revoke`; it goes on until it has really ended."""
        ...

    def ended(self, error: BaseException | None, *, timed_out: bool, cancelled: bool) -> None:
        """Record how it ended."""
        ...

    def dropped(self) -> None:
        """Record that no worker will begin it."""
        ...


J = TypeVar("J", bound=Job)


class _Run:
    """What a worker is at, under one scope: since when, and whether it was cancelled."""

    __slots__ = ("_scope", "begun_s", "is_cancelled")

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope
        self.begun_s = 0.0
        self.is_cancelled = False

    def cancel(self) -> None:
        """Cancel the job, and with it what its worker's scope may do after it."""
        self.is_cancelled = True
        self._scope.cancel()


def _parted(raised: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """The cancellations inside, and the rest."""
    if isinstance(raised, trio.Cancelled):
        return raised, None
    if not isinstance(raised, BaseExceptionGroup):
        return None, raised
    return cast("BaseExceptionGroup[BaseException]", raised).split(trio.Cancelled)


def _is_cancelled_from_outside() -> bool:
    return trio.current_effective_deadline() == -math.inf


def _ends_program(raised: BaseException) -> bool:
    """Whether it is for the whole program, or for the interpreter."""
    return any(isinstance(leaf, KeyboardInterrupt | SystemExit | GeneratorExit) for leaf in leaves(raised))


def _stray(raised: BaseException) -> Exception:
    error = RuntimeError("a cancellation that nobody asked for came out of it")
    error.__cause__ = raised
    return error


class WorkerPool(Generic[J]):
    """Runs jobs, at most `slots` at once.

    Args:
        slots: Jobs under way at once, > 0.
        work: The work itself. What it raises is handed to the job's `ended`.
    """

    def __init__(self, slots: int, work: Callable[[J], Awaitable[None]]) -> None:
        self.slots = slots
        """Jobs under way at once."""
        self._free = slots
        self._work = work
        self._line: deque[Callable[[], bool]] = deque()
        self._ready: deque[J] = deque()
        self._parked: deque[trio.lowlevel.Task] = deque()
        self._nursery: trio.Nursery | None = None
        self._workers = 0
        self._waking = False
        self._running: dict[J, _Run] = {}
        self._next_due_s = math.inf
        self._alarm = trio.CancelScope()
        self._revoked: dict[J, trio.Event] = {}
        self._now_s: Callable[[], float] = trio.current_time
        self.took: Histogram | None = None
        """How long jobs took, once somebody asks."""

    @property
    def is_idle(self) -> bool:
        """No slot is taken."""
        return self._free == self.slots

    def try_reserve(self) -> bool:
        """Reserve a slot, unless none is free or somebody stands in line."""
        if self._free and not self._line:
            self._free -= 1
            return True
        return False

    def reserve_later(self, granted: Callable[[], bool]) -> None:
        """Stand in line. `granted` is called with a slot reserved; it answers False to pass the slot on."""
        self._line.append(granted)
        self._serve_line()

    @property
    def has_line(self) -> bool:
        """Whether somebody waits for a slot."""
        return bool(self._line)

    def give_back(self) -> None:
        """End a reservation: the first in line gets the slot."""
        self._free += 1
        if self._line:
            self._serve_line()

    def start(self, job: J) -> None:
        """Run a job under a slot reserved for it."""
        self._ready.append(job)
        if not self._waking:
            self._wake_one()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Hold the workers until cancelled. Jobs that were started before are taken up."""
        # What `trio.current_time` asks in the end: two times a message it is worth asking at once.
        self._now_s = trio.lowlevel.current_clock().current_time
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                nursery.start_soon(self._watch)
                task_status.started()
                if self._ready:
                    self._wake_one()
                await trio.sleep_forever()
            finally:
                self._nursery = None
                self._workers = 0
                self._waking = False
                while self._ready:
                    self._ready.popleft().dropped()

    @property
    def running(self) -> list[J]:
        """Jobs that a worker has begun and not ended."""
        return list(self._running)

    @property
    def begun(self) -> list[tuple[J, float]]:
        """The same, each with when it began, in seconds of `trio.current_time()`."""
        return [(job, run.begun_s) for job, run in self._running.items()]

    @property
    def all_jobs(self) -> list[J]:
        """Jobs begun, and jobs that wait for a worker."""
        return [*self._running, *self._ready]

    async def revoke(self, jobs: Iterable[J]) -> None:
        """Cancel jobs and return when they have really ended; those that no worker has begun are dropped."""
        wanted = list(jobs)
        for job in wanted:
            if job in self._running:
                self._revoked[job] = trio.Event()
                self._running[job].cancel()
                job.cut_off()
            elif job in self._ready:
                self._ready.remove(job)
                job.dropped()
        for job in wanted:
            if job in self._revoked:
                await self._revoked[job].wait()
                del self._revoked[job]

    def _serve_line(self) -> None:
        while self._free and self._line:
            granted = self._line.popleft()
            self._free -= 1
            if not granted():
                self._free += 1

    def _wake_one(self) -> None:
        if self._waking or self._nursery is None:
            return
        if self._parked:
            self._waking = True
            trio.lowlevel.reschedule(self._parked.popleft())
        elif self._workers < self.slots:
            self._waking = True
            self._workers += 1
            self._nursery.start_soon(self._worker)

    async def _park(self) -> None:
        while not self._ready:
            task = trio.lowlevel.current_task()
            self._parked.append(task)

            def abort(_: trio.lowlevel.RaiseCancelT, task: trio.lowlevel.Task = task) -> trio.lowlevel.Abort:
                self._parked.remove(task)
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)
            self._waking = False

    async def _worker(self) -> None:
        # Only who was woken says so: while another is on its way, the one that goes on with the next job wakes nobody.
        self._waking = False
        ready, running = self._ready, self._running
        while True:
            job: J | None = None
            error: BaseException | None = None
            outside = True
            try:
                with trio.CancelScope() as scope:
                    run: _Run | None = None
                    for _ in range(_CHECKPOINT_EVERY):
                        if not ready:
                            # Who waits keeps nothing.
                            run = None
                            await self._park()
                        run = run or _Run(scope)
                        job = ready.popleft()
                        if ready and not self._waking:
                            self._wake_one()
                        error = None
                        self._begin(job, run)
                        try:
                            await self._work(job)
                        except Exception as raised:
                            error = raised
                        except BaseException as raised:
                            cancelled, error = _parted(raised)
                            if cancelled is not None and (run.is_cancelled or _is_cancelled_from_outside()):
                                raise cancelled from None
                            if _ends_program(raised):
                                raise
                            # A cancellation that nobody asked for is a failure like any other.
                            error = error or _stray(raised)
                        if run.is_cancelled:
                            break
                        ended, job = job, None
                        if self._revoked or self.took is not None:
                            self._end(ended, error)
                        else:
                            del running[ended]
                            ended.ended(error, timed_out=False, cancelled=False)
                        # A worker may wait for long, and what it did last would be kept as long.
                        del ended
                        error = None
                outside = False
            finally:
                if job is not None:
                    self._end(job, error, timed_out=not outside, cancelled=outside)
            await trio.lowlevel.checkpoint()

    def _begin(self, job: J, run: _Run) -> None:
        run.begun_s = now_s = self._now_s()
        job.due_s = due_s = now_s + job.timeout_s
        self._running[job] = run
        if due_s < self._next_due_s:
            self._next_due_s = self._alarm.deadline = due_s

    async def _watch(self) -> None:
        """Cancel what has run for too long. One alarm for all: a deadline for each job costs as much as its start."""
        while True:
            self._next_due_s = self._cancel_late()
            with trio.CancelScope(deadline=self._next_due_s) as self._alarm:
                await trio.sleep_forever()

    def _cancel_late(self) -> float:
        """Cancel what is late now; when the next one will be. Apart from `_watch`, whose frame would keep a job."""
        now_s = trio.current_time()
        next_due_s = math.inf
        for job, run in self._running.items():
            if job.due_s <= now_s:
                run.cancel()
                job.cut_off()
            else:
                next_due_s = min(next_due_s, job.due_s)
        return next_due_s

    def _end(
        self, job: J, error: BaseException | None, *, timed_out: bool = False, cancelled: bool = False
    ) -> None:
        # A worker that crashed between taking a job and noting it tells its end all the same.
        run = self._running.pop(job, None)
        if self.took is not None and run is not None:
            self.took.observe(self._now_s() - run.begun_s)
        revoked = self._revoked.get(job) if self._revoked else None
        if revoked is None:
            job.ended(error, timed_out=timed_out, cancelled=cancelled)
        else:
            try:
                job.ended(error, timed_out=False, cancelled=True)
            finally:
                revoked.set()
