from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger
from trio.testing import MockClock, wait_all_tasks_blocked

from shardline.actors.actor import Actor
from shardline.actors.child import Child
from shardline.actors.errors import BusError, Code
from shardline.actors.restart import Backoff, Restart, RestartBudget, Strategy
from shardline.actors.supervisor import ChildSpec, ChildState, Supervisor


class Boom(Exception):
    pass


class Stage:
    """Children that do as they are told, and one list of all that happens: `+a` runs, `-a` has ended."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.started_s: list[tuple[str, float]] = []
        self.capture = LogCapture()
        self.log: FilteringBoundLogger = structlog.wrap_logger(
            None, processors=[self.capture], wrapper_class=structlog.make_filtering_bound_logger(0)
        )
        self._orders: dict[str, trio.MemorySendChannel[Exception | None]] = {}
        self._start_faults: dict[str, list[Exception]] = {}
        self._stop_faults: dict[str, Exception] = {}

    def child(
        self,
        name: str,
        restart: Restart = Restart.PERMANENT,
        *,
        escalates: bool = False,
        start_s: float = 0,
        farewell_s: float = 0,
    ) -> ChildSpec:
        """A child that runs until told; it takes `start_s` to start and `farewell_s` to clean up."""

        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            self.events.append(f"+{name}")
            self.started_s.append((name, trio.current_time()))
            self._orders[name], orders = trio.open_memory_channel[Exception | None](1)
            try:
                await trio.sleep(start_s)
                if self._start_faults.get(name):
                    raise self._start_faults[name].pop(0)
                task_status.started()
                order = await orders.receive()
                if order is not None:
                    raise order
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(farewell_s)
                self.events.append(f"-{name}")
                if name in self._stop_faults:
                    raise self._stop_faults.pop(name)

        return ChildSpec(name, start, restart=restart, escalates=escalates)

    def crash(self, name: str, error: Exception | None = None) -> None:
        self._orders[name].send_nowait(error or Boom(name))

    def end(self, name: str) -> None:
        self._orders[name].send_nowait(None)

    def fail_starts(self, name: str, *errors: Exception) -> None:
        self._start_faults[name] = list(errors)

    def fail_stop(self, name: str, error: Exception) -> None:
        self._stop_faults[name] = error

    def supervisor(
        self,
        *children: ChildSpec,
        name: str = "top",
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        budget: RestartBudget = RestartBudget(),
        backoff: Backoff = Backoff(),
    ) -> Supervisor:
        return Supervisor(name, children, strategy=strategy, budget=budget, backoff=backoff, log=self.log)

    def take(self) -> str:
        """The events since the last look."""
        events = " ".join(self.events)
        self.events.clear()
        return events

    def lines(self, event: str) -> list[dict[str, object]]:
        return [dict(line) for line in self.capture.entries if line["event"] == event]


@pytest.fixture
def stage() -> Stage:
    return Stage()


@asynccontextmanager
async def running(supervisor: Supervisor) -> AsyncGenerator[None, None]:
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            await nursery.start(supervisor.run)
            yield
            nursery.cancel_scope.cancel()


async def escalation_of(
    run: Callable[[], Awaitable[None]], drive: Callable[[], Awaitable[None]]
) -> BaseException:
    """Run until an exception comes out, `drive` beside it."""
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive)
            with pytest.raises(Exception) as caught:  # noqa: PT011
                await run()
            nursery.cancel_scope.cancel()
    return caught.value


async def settle() -> None:
    """Past every back-off of these tests, but within one period."""
    await trio.sleep(8)


async def crash_after(stage: Stage, name: str, delay_s: float) -> None:
    await trio.sleep(delay_s)
    stage.crash(name)


def states(supervisor: Supervisor) -> dict[str, str]:
    return {child.name: child.state.value for child in supervisor.statistics()}


# Start and stop


async def test_each_child_starts_when_the_one_before_has_and_stops_in_reverse(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(*(stage.child(name, farewell_s=1) for name in "abc"))
    async with running(supervisor):
        assert stage.take() == "+a +b +c"
        assert set(states(supervisor).values()) == {"running"}
        before_s = trio.current_time()

    # One second each: none is cancelled before the one after it has ended.
    assert stage.take() == "-c -b -a"
    assert trio.current_time() - before_s == pytest.approx(3)


async def test_a_child_waits_for_the_start_of_the_one_before(stage: Stage, autojump_clock: MockClock) -> None:
    gate = trio.Event()

    async def slow(*, task_status: trio.TaskStatus[None]) -> None:
        await gate.wait()
        task_status.started()
        await trio.sleep_forever()

    supervisor = stage.supervisor(ChildSpec("slow", slow), stage.child("b"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.run)
        await wait_all_tasks_blocked()
        assert states(supervisor) == {"slow": "starting", "b": "waiting"}
        gate.set()
        await wait_all_tasks_blocked()
        assert states(supervisor) == {"slow": "running", "b": "running"}
        nursery.cancel_scope.cancel()


async def test_a_child_stopped_before_its_first_step_never_runs(
    stage: Stage, autojump_clock: MockClock
) -> None:
    child = Child(stage.child("a"), is_added=False)
    ends: list[tuple[ChildState, Exception | None]] = []

    class StopWhenSpawned(trio.abc.Instrument):
        def task_spawned(self, task: trio.lowlevel.Task) -> None:
            if task.name == "a":
                child.mark_stopping()

    def on_end(_: Child, was: ChildState, error: Exception | None) -> None:
        ends.append((was, error))

    trio.lowlevel.add_instrument(StopWhenSpawned())
    async with trio.open_nursery() as nursery:
        await child.launch(nursery, on_end)

    assert (ends, stage.take()) == ([(ChildState.STOPPING, None)], "")


async def test_cancelled_during_the_start_stops_what_runs(stage: Stage, autojump_clock: MockClock) -> None:
    async def never(*, task_status: trio.TaskStatus[None]) -> None:
        try:
            await trio.sleep_forever()
        finally:
            stage.events.append("-never")

    supervisor = stage.supervisor(stage.child("a"), ChildSpec("never", never), stage.child("c"))
    with trio.move_on_after(1) as scope:
        await supervisor.run()

    assert scope.cancelled_caught
    assert stage.take() == "+a -never -a"


async def test_a_supervisor_without_children_starts_and_waits_to_be_cancelled(
    stage: Stage, autojump_clock: MockClock
) -> None:
    with trio.move_on_after(5) as scope:
        async with running(stage.supervisor()):
            await trio.sleep_forever()

    assert scope.cancelled_caught


async def test_it_runs_once_at_a_time_and_again_afterwards(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(stage.child("a"), stage.child("t", Restart.TEMPORARY))
    async with running(supervisor):
        with pytest.raises(RuntimeError, match="runs already"):
            await supervisor.run()
        stage.end("t")
        await settle()
        assert states(supervisor) == {"a": "running", "t": "ended"}
    stage.take()

    async with running(supervisor):
        assert stage.take() == "+a +t"


def test_children_of_one_name_are_refused(stage: Stage) -> None:
    with pytest.raises(ValueError, match="'a' already"):
        stage.supervisor(stage.child("a"), stage.child("a"))


# Restarts


@pytest.mark.parametrize(
    ("strategy", "events"),
    [
        (Strategy.ONE_FOR_ONE, "-b +b"),
        (Strategy.ONE_FOR_ALL, "-b -d -c -a +a +b +c +d"),
        (Strategy.REST_FOR_ONE, "-b -d -c +b +c +d"),
    ],
)
async def test_a_crash_restarts_by_the_strategy(
    stage: Stage, autojump_clock: MockClock, strategy: Strategy, events: str
) -> None:
    supervisor = stage.supervisor(*map(stage.child, "abcd"), strategy=strategy)
    async with running(supervisor):
        stage.take()
        stage.crash("b")
        await settle()

        assert stage.take() == events
        assert set(states(supervisor).values()) == {"running"}
        restarted = {child.name for child in supervisor.statistics() if child.restarts == 1}
        assert restarted == {event[1] for event in events.split() if event[0] == "+"}


@pytest.mark.parametrize(
    ("restart", "after_end", "after_crash"),
    [
        (Restart.PERMANENT, "-x +x", "-x +x"),
        (Restart.TRANSIENT, "-x", "-x +x"),
        (Restart.TEMPORARY, "-x", "-x"),
    ],
)
async def test_a_child_restarts_by_its_type(
    stage: Stage, autojump_clock: MockClock, restart: Restart, after_end: str, after_crash: str
) -> None:
    for act, events in ((stage.end, after_end), (stage.crash, after_crash)):
        supervisor = stage.supervisor(stage.child("x", restart))
        async with running(supervisor):
            stage.take()
            act("x")
            await settle()
            assert stage.take() == events
            assert states(supervisor) == {"x": "running" if "+" in events else "ended"}


async def test_back_off_grows_with_the_restarts_of_the_period(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(stage.child("a"), backoff=Backoff(initial_s=1, max_s=3, multiplier=2))
    stage.fail_starts("a", Boom(), Boom(), Boom())
    async with running(supervisor):
        assert [at_s for _, at_s in stage.started_s] == [0, 1, 3, 6]
        await trio.sleep(40)
        stage.crash("a")
        await settle()
        # The period is over: the first delay again.
        assert stage.started_s[-1] == ("a", 47)


async def test_one_child_in_back_off_does_not_hold_up_another(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(
        *map(stage.child, "ab"), backoff=Backoff(initial_s=5, max_s=6, multiplier=1)
    )
    async with running(supervisor):
        stage.crash("a")
        await trio.sleep(4)
        stage.crash("b")
        await settle()

        assert stage.started_s[2:] == [("a", 5), ("b", 9)]


async def test_a_crash_during_the_start_counts_and_the_later_children_wait(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.fail_starts("b", Boom(), Boom())
    supervisor = stage.supervisor(*map(stage.child, "abc"))
    async with running(supervisor):
        assert stage.take() == "+a +b -b +b -b +b +c"
        assert [child.crashes for child in supervisor.statistics()] == [0, 2, 0]


async def test_a_crash_during_the_start_restarts_the_ones_before_under_one_for_all(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.fail_starts("b", Boom())
    async with running(stage.supervisor(*map(stage.child, "abc"), strategy=Strategy.ONE_FOR_ALL)):
        assert stage.take() == "+a +b -b -a +a +b +c"


async def test_an_end_before_started_is_a_crash(stage: Stage, autojump_clock: MockClock) -> None:
    runs: list[int] = []

    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        runs.append(1)
        if len(runs) == 2:
            task_status.started()
            await trio.sleep_forever()

    async with running(stage.supervisor(ChildSpec("quick", start, restart=Restart.TRANSIENT))):
        assert len(runs) == 2
        assert [line["error_type"] for line in stage.lines("actor.crashed")] == ["RuntimeError"]


async def test_started_twice_is_a_crash(stage: Stage, autojump_clock: MockClock) -> None:
    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        task_status.started()

    supervisor = stage.supervisor(ChildSpec("twice", start, restart=Restart.TEMPORARY))
    async with running(supervisor):
        await settle()
        assert [line["error_type"] for line in stage.lines("actor.crashed")] == ["RuntimeError"]


async def test_a_crash_of_an_earlier_child_takes_over_a_restart_under_way(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(
        *map(stage.child, "abc"), strategy=Strategy.REST_FOR_ONE, backoff=Backoff(initial_s=5, max_s=5)
    )
    async with running(supervisor):
        stage.take()
        stage.crash("b")
        await trio.sleep(3)
        assert stage.take() == "-b -c"
        assert states(supervisor) == {"a": "running", "b": "waiting", "c": "waiting"}
        stage.crash("a")
        await settle()

        assert stage.take() == "-a +a +b +c"
        assert stage.started_s[-1] == ("c", 8)


async def test_siblings_that_crash_with_it_are_one_restart(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(
        *map(stage.child, "abc"), strategy=Strategy.ONE_FOR_ALL, budget=RestartBudget(intensity=1)
    )
    async with running(supervisor):
        stage.take()
        for name in "abc":
            stage.crash(name)
        await settle()

        assert sorted(stage.take().split()[:3]) == ["-a", "-b", "-c"]
        assert set(states(supervisor).values()) == {"running"}
        assert [child.crashes for child in supervisor.statistics()] == [1, 1, 1]


async def test_siblings_that_have_ended_for_good_stay_so(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(
        stage.child("a"),
        stage.child("t", Restart.TRANSIENT),
        stage.child("x", Restart.TEMPORARY),
        strategy=Strategy.ONE_FOR_ALL,
    )
    async with running(supervisor):
        stage.end("t")
        await settle()
        stage.take()
        stage.crash("a")
        await settle()

        # The temporary one goes with the others and does not come again.
        assert stage.take() == "-a -x +a"
        assert states(supervisor) == {"a": "running", "t": "ended", "x": "ended"}


async def test_a_temporary_child_lost_during_its_start_does_not_hold_up_the_rest(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(
        stage.child("a"), stage.child("x", Restart.TEMPORARY, start_s=5), strategy=Strategy.ONE_FOR_ALL
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crash_after, stage, "a", 2.0)
        with trio.fail_after(100):
            await nursery.start(supervisor.run)
        await settle()
        assert stage.take() == "+a +x -a -x +a"
        nursery.cancel_scope.cancel()


async def test_a_wave_overtaken_in_the_tick_of_its_start_starts_nothing(
    stage: Stage, autojump_clock: MockClock
) -> None:
    for _ in range(20):
        supervisor = stage.supervisor(
            *map(stage.child, "ab"), strategy=Strategy.REST_FOR_ONE, backoff=Backoff(initial_s=5, max_s=5)
        )
        async with running(supervisor):
            stage.take()
            stage.crash("b")
            await wait_all_tasks_blocked()
            # The back-off of b and the life of a end in one tick, in any order.
            await crash_after(stage, "a", 5)
            await settle()

            assert stage.take() in {"-b -a +a +b", "-b +b -a -b +a +b"}


async def test_a_restart_keeps_the_mailbox(stage: Stage, autojump_clock: MockClock) -> None:
    class Counter(Actor[int]):
        def __init__(self) -> None:
            super().__init__("counter", capacity=10)
            self.seen: list[int] = []

        async def handle(self, message: int) -> None:
            self.seen.append(message)
            if message == 2:
                raise Boom

    counter = Counter()
    async with running(stage.supervisor(ChildSpec(counter.name, counter.run))):
        for n in range(5):
            counter.ref.tell(n)
        await wait_all_tasks_blocked()
        assert counter.seen == [0, 1, 2]
        counter.ref.tell(5)
        await settle()

    assert counter.seen == [0, 1, 2, 3, 4, 5]


# Escalation


async def test_one_restart_too_many_escalates_the_exception_itself(
    stage: Stage, autojump_clock: MockClock
) -> None:
    errors = [BusError(Code.STORE_CORRUPT, str(n)) for n in range(3)]
    supervisor = stage.supervisor(*map(stage.child, "abc"), budget=RestartBudget(intensity=2))

    async def drive() -> None:
        await settle()
        for error in errors:
            stage.take()
            stage.crash("b", error)
            await settle()

    assert await escalation_of(supervisor.run, drive) is errors[2]
    assert stage.take() == "-b -c -a"
    assert len(stage.lines("actor.crashed")) == 3
    assert [line["actor"] for line in stage.lines("actor.escalated")] == ["b"]


async def test_the_period_forgets(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(stage.child("a"), budget=RestartBudget(intensity=1, period_s=10))
    async with running(supervisor):
        for _ in range(4):
            stage.crash("a")
            await trio.sleep(10)
        assert states(supervisor) == {"a": "running"}


async def test_escalation_through_two_levels_spends_each_budget(
    stage: Stage, autojump_clock: MockClock
) -> None:
    low = stage.supervisor(*map(stage.child, "ab"), name="low", budget=RestartBudget(intensity=1))
    top = stage.supervisor(
        stage.child("first"),
        ChildSpec(low.name, low.run),
        stage.child("last"),
        budget=RestartBudget(intensity=1),
        strategy=Strategy.REST_FOR_ONE,
    )
    errors = [BusError(Code.STORE_IO, str(n)) for n in range(4)]

    async def drive() -> None:
        await settle()
        assert stage.take() == "+first +a +b +last"
        seen: list[str] = []
        for error in errors:
            stage.crash("a", error)
            await settle()
            seen.append(stage.take())
            # The low one restarts once by itself; the second time it takes all of itself and the rest along.
            assert seen[0] == "-a +a"
            assert seen[1:2] in ([], ["-a -b -last +a +b +last"])

    assert await escalation_of(top.run, drive) is errors[3]
    assert stage.take() == "-a -b -last -first"
    crashed = [(line["supervisor"], line["actor"]) for line in stage.lines("actor.crashed")]
    assert crashed == [("low", "a"), ("low", "a"), ("top", "low"), ("low", "a"), ("low", "a"), ("top", "low")]


async def test_a_child_whose_death_ends_all_escalates_without_a_restart(
    stage: Stage, autojump_clock: MockClock
) -> None:
    error = BusError(Code.FENCED, "another owner")
    supervisor = stage.supervisor(stage.child("a"), stage.child("lease", escalates=True), stage.child("c"))

    async def drive() -> None:
        await settle()
        stage.take()
        stage.crash("lease", error)

    assert await escalation_of(supervisor.run, drive) is error
    assert stage.take() == "-lease -c -a"


async def test_an_escalation_during_the_start_starts_no_further_child(
    stage: Stage, autojump_clock: MockClock
) -> None:
    # Again and again: the tasks of one tick run in any order.
    for _ in range(20):
        error = Boom()
        stage.fail_starts("b", error)
        supervisor = stage.supervisor(stage.child("a"), stage.child("b", escalates=True), stage.child("c"))

        assert await escalation_of(supervisor.run, settle) is error
        assert stage.take() == "+a +b -b -a"


async def test_an_escalation_during_the_start_is_no_start(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(
        stage.child("a", escalates=True), stage.child("x", Restart.TEMPORARY, start_s=5)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crash_after, stage, "a", 2.0)
        with pytest.raises(Boom):
            await nursery.start(supervisor.run)

    assert stage.take() == "+a +x -a -x"


async def test_a_permanent_child_that_only_returns_escalates_as_closed(
    stage: Stage, autojump_clock: MockClock
) -> None:
    for child, budget in (
        (stage.child("a"), RestartBudget(intensity=0)),
        (stage.child("a", escalates=True), RestartBudget()),
    ):
        supervisor = stage.supervisor(child, budget=budget)

        async def drive() -> None:
            await settle()
            stage.end("a")

        error = await escalation_of(supervisor.run, drive)
        assert isinstance(error, BusError)
        assert (error.code, error.context["actor"]) == (Code.BUS_CLOSED, "a")


async def test_an_orderly_end_of_a_transient_child_never_escalates(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(stage.child("a", Restart.TRANSIENT, escalates=True))
    async with running(supervisor):
        stage.end("a")
        await settle()
        assert states(supervisor) == {"a": "ended"}


async def test_an_escalated_supervisor_starts_afresh(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(stage.child("a"), budget=RestartBudget(intensity=0))

    async def drive() -> None:
        await settle()
        stage.crash("a")

    assert isinstance(await escalation_of(supervisor.run, drive), Boom)
    async with running(supervisor):
        assert states(supervisor) == {"a": "running"}


# Groups and cancellation


def grouping(name: str, *errors: Exception) -> ChildSpec:
    """A child whose own nursery raises its tasks' errors."""

    async def fail(error: Exception) -> None:
        raise error

    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        async with trio.open_nursery() as nursery:
            for error in errors:
                nursery.start_soon(fail, error)
            await trio.sleep_forever()

    return ChildSpec(name, start, escalates=True)


async def test_the_only_exception_of_a_childs_nursery_comes_out_bare(
    stage: Stage, autojump_clock: MockClock
) -> None:
    error = BusError(Code.BAD_TOKEN, "refused")

    assert await escalation_of(stage.supervisor(grouping("edge", error)).run, settle) is error
    [line] = stage.lines("actor.crashed")
    assert (line["error_type"], line["bus_error_code"]) == ("BusError", "BAD_TOKEN")


async def test_two_exceptions_of_a_childs_nursery_stay_a_group(
    stage: Stage, autojump_clock: MockClock
) -> None:
    errors = (Boom(), BusError(Code.BAD_TOKEN, "refused"))
    with pytest.RaisesGroup(
        pytest.RaisesExc(check=lambda error: error is errors[0]),
        pytest.RaisesExc(check=lambda error: error is errors[1]),
    ):
        await stage.supervisor(grouping("edge", *errors)).run()

    assert [line["bus_error_code"] for line in stage.lines("actor.crashed")] == ["BAD_TOKEN"]


async def test_an_error_beside_the_cancellation_of_a_stop_is_logged_and_the_stop_goes_on(
    stage: Stage,
    autojump_clock: MockClock,
) -> None:
    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        async def clean_up() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise Boom

        async with trio.open_nursery() as nursery:
            nursery.start_soon(clean_up)
            nursery.start_soon(trio.sleep_forever)
            task_status.started()

    supervisor = stage.supervisor(stage.child("a"), ChildSpec("mixed", start), stage.child("c"))
    with trio.move_on_after(5) as scope:
        await supervisor.run()

    assert scope.cancelled_caught
    assert stage.take() == "+a +c -c -a"
    [line] = stage.lines("actor.crashed")
    assert (line["actor"], line["error_type"], line["state"]) == ("mixed", "Boom", "stopping")


async def test_a_cancellation_from_elsewhere_ends_all_and_hides_no_error(
    stage: Stage, autojump_clock: MockClock
) -> None:
    taken: list[trio.Cancelled] = []

    async def give() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as exc:
            taken.append(exc)
            raise

    with trio.move_on_after(0):
        await give()

    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        raise BaseExceptionGroup("mixed", [taken[0], Boom()])

    supervisor = stage.supervisor(stage.child("a"), ChildSpec("mixed", start))
    with pytest.RaisesGroup(Boom, flatten_subgroups=True):
        await supervisor.run()

    # Nothing was restarted beside it. (The nursery takes the Cancelled: it has cancelled all its tasks by then.)
    assert stage.take() == "+a -a"
    assert [line["error_type"] for line in stage.lines("actor.crashed")] == ["Boom"]


async def test_an_interrupt_in_a_child_stops_the_others_and_goes_on(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep(1)
        raise KeyboardInterrupt

    supervisor = stage.supervisor(
        stage.child("a"), ChildSpec("struck", start, escalates=True), stage.child("c")
    )
    with pytest.RaisesGroup(KeyboardInterrupt):
        await supervisor.run()

    assert stage.take() == "+a +c -c -a"
    assert stage.lines("actor.crashed") == stage.lines("actor.escalated") == []


async def test_cancelled_in_back_off_restarts_nothing(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(*map(stage.child, "ab"), backoff=Backoff(initial_s=5, max_s=5))
    async with running(supervisor):
        stage.take()
        stage.crash("a")
        await trio.sleep(1)

    assert stage.take() == "-a -b"


async def test_a_crash_beside_the_stop_restarts_nothing(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(stage.child("a"), stage.child("b"), stage.child("c", farewell_s=5))
    async with trio.open_nursery() as outer:
        async with running(supervisor):
            stage.take()
            outer.start_soon(crash_after, stage, "b", 1.0)
    assert stage.take() == "-b -c -a"
    assert [line["actor"] for line in stage.lines("actor.crashed")] == ["b"]


async def test_a_failed_clean_up_is_logged_and_nobody_is_left_behind(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(*map(stage.child, "abc"))
    async with running(supervisor):
        stage.take()
        stage.fail_stop("b", Boom())

    assert stage.take() == "-c -b -a"
    assert [(line["actor"], line["state"]) for line in stage.lines("actor.crashed")] == [("b", "stopping")]
    assert supervisor.statistics()[1].crashes == 1


# Children that come and go


async def test_a_child_can_be_added_and_removed_at_run_time(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(stage.child("a"))
    async with running(supervisor):
        supervisor.add(stage.child("b"))
        await settle()
        stage.crash("b")
        await settle()
        assert stage.take() == "+a +b -b +b"
        with pytest.raises(ValueError, match="'b' already"):
            supervisor.add(stage.child("b"))

        await supervisor.remove("b")
        assert stage.take() == "-b"
        assert states(supervisor) == {"a": "running"}
        with pytest.raises(KeyError):
            await supervisor.remove("b")
        supervisor.add(stage.child("b"))
        await settle()

    assert stage.take() == "+b -b -a"


async def test_an_added_child_starts_after_those_that_are_still_to_start(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(*map(stage.child, "ab"), strategy=Strategy.REST_FOR_ONE)
    async with running(supervisor):
        stage.take()
        stage.crash("a")
        await wait_all_tasks_blocked()
        supervisor.add(stage.child("c"))
        await settle()

        assert stage.take() == "-a -b +a +b +c"


async def test_added_children_are_forgotten_when_they_have_ended_for_good(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor()
    supervisor.add(stage.child("kept"))
    async with running(supervisor):
        for name, restart in (("x", Restart.TEMPORARY), ("y", Restart.TRANSIENT), ("z", Restart.TEMPORARY)):
            supervisor.add(stage.child(name, restart))
        await settle()
        stage.crash("x")
        stage.end("y")
        await settle()
        assert states(supervisor) == {"kept": "running", "z": "running"}
    stage.take()

    async with running(supervisor):
        assert stage.take() == "+kept"


async def test_a_child_removed_in_back_off_does_not_come_again(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(*map(stage.child, "abc"), strategy=Strategy.ONE_FOR_ALL)
    async with running(supervisor):
        stage.take()
        stage.crash("b")
        await wait_all_tasks_blocked()
        await supervisor.remove("b")
        await settle()

        assert stage.take() == "-b -c -a +a +c"


async def test_a_child_removed_before_its_start_is_not_waited_for(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(stage.child("a", start_s=5), stage.child("b"))

    async def remove() -> None:
        await trio.sleep(1)
        await supervisor.remove("b")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(remove)
        with trio.fail_after(100):
            await nursery.start(supervisor.run)
        assert stage.take() == "+a"
        nursery.cancel_scope.cancel()


# What it tells


async def test_a_crash_is_a_line_with_its_code_and_a_count_but_without_its_text(
    stage: Stage, autojump_clock: MockClock
) -> None:
    supervisor = stage.supervisor(stage.child("a"))
    async with running(supervisor):
        for error in (BusError(Code.STORE_BUSY, "secret"), Boom("secret")):
            stage.crash("a", error)
            await settle()

    lines = stage.lines("actor.crashed")
    assert [line["bus_error_code"] for line in lines] == ["STORE_BUSY", None]
    assert [line["error_type"] for line in lines] == ["BusError", "Boom"]
    assert [line["crashes"] for line in lines] == [1, 2]
    assert {(line["supervisor"], line["actor"], line["log_level"]) for line in lines} == {
        ("top", "a", "error")
    }
    assert str(lines[0]["site"]).startswith(f"{__name__}:")
    assert "secret" not in str(lines)
    assert [line["restarts"] for line in stage.lines("actor.restarted")] == [1, 2]


async def test_statistics_are_in_child_order(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(*map(stage.child, "ba"))
    assert [(child.name, child.state) for child in supervisor.statistics()] == [
        ("b", ChildState.WAITING),
        ("a", ChildState.WAITING),
    ]
    assert supervisor.name == "top"
