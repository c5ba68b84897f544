"""The worker pool: slots in a fair line, every job ended exactly once, whatever ends it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from shardline.runtime.pool import WorkerPool

Work = Callable[[], Awaitable[None]]


@attrs.define(eq=False)
class Task:
    """A job that does `work` and keeps how it ended; its slot goes back with its end, as a shard gives it back."""

    pool: WorkerPool[Task]
    work: Work
    timeout_s: float = 10.0
    due_s: float = 0.0
    ends: list[str] = attrs.field(factory=list[str])
    error: BaseException | None = None
    cuts: int = 0

    def cut_off(self) -> None:
        self.cuts += 1

    def ended(self, error: BaseException | None, *, timed_out: bool, cancelled: bool) -> None:
        self.error = error
        self.ends.append("timed out" if timed_out else "cancelled" if cancelled else "ended")
        self.pool.give_back()

    def dropped(self) -> None:
        self.ends.append("dropped")
        self.pool.give_back()


async def do(task: Task) -> None:
    await task.work()


async def forever() -> None:
    await trio.sleep_forever()


async def briefly() -> None:
    await trio.sleep(1)


def start(pool: WorkerPool[Task], work: Work, *, timeout_s: float = 10.0) -> Task:
    """Reserve a slot, which must be free, and start a job under it."""
    assert pool.try_reserve()
    task = Task(pool, work, timeout_s)
    pool.start(task)
    return task


@asynccontextmanager
async def running(pool: WorkerPool[Task]) -> AsyncGenerator[None]:
    async with trio.open_nursery() as nursery:
        await nursery.start(pool.run)
        yield
        nursery.cancel_scope.cancel()


async def test_a_free_slot_goes_to_the_first_in_line(autojump_clock: MockClock) -> None:
    pool = WorkerPool(1, do)
    granted: list[str] = []

    def ask(name: str, *, takes: bool) -> None:
        def grant() -> bool:
            granted.append(name)
            return takes

        pool.reserve_later(grant)

    assert pool.try_reserve()
    ask("a", takes=True)
    ask("declines", takes=False)
    ask("b", takes=True)
    assert not pool.try_reserve()
    assert granted == []
    pool.give_back()
    assert granted == ["a"]
    # Nobody gets past the line.
    assert not pool.try_reserve()
    pool.give_back()
    assert granted == ["a", "declines", "b"]
    assert not pool.has_line
    pool.give_back()
    assert pool.is_idle


async def test_a_burst_runs_side_by_side_and_no_more_than_there_are_slots(autojump_clock: MockClock) -> None:
    pool = WorkerPool(3, do)
    under_way = [0]

    async def work() -> None:
        under_way.append(under_way[-1] + 1)
        await trio.sleep(1)
        under_way.append(under_way[-1] - 1)

    tasks: list[Task] = []

    def grant() -> bool:
        tasks.append(Task(pool, work))
        pool.start(tasks[-1])
        return True

    async with running(pool):
        for _ in range(90):
            pool.reserve_later(grant)
        await trio.sleep(30.5)

    assert max(under_way) == 3
    assert [task.ends for task in tasks] == [["ended"]] * 90
    assert pool.is_idle


class Steps(trio.abc.Instrument):
    """Counts how often tasks are put on the loop."""

    def __init__(self) -> None:
        self.scheduled = 0

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        self.scheduled += 1


async def test_a_burst_that_never_waits_wakes_one_worker_beside_the_first(autojump_clock: MockClock) -> None:
    """A worker for each job would cost as much as the job."""
    pool = WorkerPool(20, do)

    async def at_once() -> None:
        pass

    async with running(pool):
        for _ in range(2):
            steps = Steps()
            trio.lowlevel.add_instrument(steps)
            tasks = [start(pool, at_once) for _ in range(20)]
            await trio.testing.wait_all_tasks_blocked()
            trio.lowlevel.remove_instrument(steps)

            assert [task.ends for task in tasks] == [["ended"]] * 20
            # The first worker, the one it wakes, the alarm, and this test; a worker a job would be twenty more.
            assert steps.scheduled <= 6


async def test_a_job_over_its_limit_is_cancelled_alone(autojump_clock: MockClock) -> None:
    pool = WorkerPool(4, do)
    async with running(pool):
        late = start(pool, forever, timeout_s=2)
        other = start(pool, briefly, timeout_s=2)
        later = start(pool, forever, timeout_s=5)
        await trio.sleep(3)
        assert (late.ends, other.ends, later.ends) == (["timed out"], ["ended"], [])
        assert (late.cuts, other.cuts, later.cuts) == (1, 0, 0)
        # A worker that was cut off works on, and the next limit holds for the next job.
        again = start(pool, briefly, timeout_s=2)
        await trio.sleep(3)
        assert (again.ends, later.ends) == (["ended"], ["timed out"])
    assert pool.is_idle


async def test_a_late_job_is_over_when_it_has_really_ended(autojump_clock: MockClock) -> None:
    """Field entry 6."""
    pool = WorkerPool(1, do)

    async def stubborn() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(7)

    async with running(pool):
        task = start(pool, stubborn, timeout_s=1)
        await trio.sleep(6)
        # It knows, long before it has ended.
        assert (task.cuts, task.ends) == (1, [])
        assert not pool.try_reserve()
        await trio.sleep(2)
        assert task.ends == ["timed out"]


async def test_an_error_is_the_job_s_alone(autojump_clock: MockClock) -> None:
    pool = WorkerPool(2, do)

    async def fail() -> None:
        raise ValueError("mine")

    async with running(pool):
        failed = start(pool, fail)
        fine = start(pool, briefly)
        await trio.sleep(2)

    assert isinstance(failed.error, ValueError)
    assert (failed.ends, fine.ends, fine.error) == (["ended"], ["ended"], None)


async def test_a_group_with_a_cancellation_inside_keeps_its_errors(autojump_clock: MockClock) -> None:
    pool = WorkerPool(1, do)

    async def fail_when_cut() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("while ending")

    async def group() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(fail_when_cut)

    async with running(pool):
        task = start(pool, group, timeout_s=1)
        await trio.sleep(2)
        assert task.ends == ["timed out"]
        # Without the cancellation, which is the pool's own doing.
        assert (
            repr(task.error) == "ExceptionGroup('Exceptions from Trio nursery', [KeyError('while ending')])"
        )
    assert pool.is_idle


async def test_revoking_cancels_what_runs_and_drops_what_waits(autojump_clock: MockClock) -> None:
    pool = WorkerPool(3, do)
    ended_at: list[float] = []

    async def slow_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.5)
            ended_at.append(trio.current_time())

    async with running(pool):
        kept = start(pool, briefly, timeout_s=60)
        cut = start(pool, slow_end, timeout_s=60)
        await trio.testing.wait_all_tasks_blocked()
        waiting = start(pool, briefly)
        await pool.revoke([cut, waiting])

        assert ended_at == [trio.current_time()]
        assert (cut.ends, waiting.ends, kept.ends) == (["cancelled"], ["dropped"], [])
        assert (cut.cuts, waiting.cuts, kept.cuts) == (1, 0, 0)
        await trio.sleep(2)
        assert kept.ends == ["ended"]
    assert pool.is_idle


@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_pool_that_ends_ends_its_jobs_and_can_run_again(
    autojump_clock: MockClock, has_begun: bool
) -> None:
    pool = WorkerPool(2, do)
    async with running(pool):
        task = start(pool, forever)
        if has_begun:
            await trio.testing.wait_all_tasks_blocked()

    assert task.ends in ([["cancelled"]] if has_begun else [["cancelled"], ["dropped"]])
    assert pool.is_idle
    # What is started while nobody works waits for the next run.
    early = start(pool, briefly)
    async with running(pool):
        late = start(pool, briefly)
        await trio.sleep(2)
        assert (early.ends, late.ends) == (["ended"], ["ended"])
    assert pool.is_idle


async def test_hundreds_of_short_jobs_share_a_few_workers(autojump_clock: MockClock) -> None:
    """More than the round in which a worker keeps one cancel scope."""
    pool = WorkerPool(2, do)
    ends: list[list[str]] = []

    async def at_once() -> None:
        pass

    async with running(pool):
        for _ in range(200):
            task = start(pool, at_once)
            ends.append(task.ends)
            await trio.testing.wait_all_tasks_blocked()

    assert ends == [["ended"]] * 200
    assert pool.is_idle
