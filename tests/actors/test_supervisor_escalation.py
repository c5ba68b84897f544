import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline.actors.errors import BusError, Code
from shardline.actors.restart import Backoff, Restart, RestartBudget, Strategy
from shardline.actors.supervisor import ChildSpec, Supervisor
from tests.kits.stage import Boom, Stage, crash_after, escalation_of, running, settle, states


@pytest.fixture
def stage() -> Stage:
    return Stage()


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
    for _ in range(20):
        stage.fail_starts("b", Boom())
        supervisor = stage.supervisor(stage.child("a"), stage.child("b", escalates=True))
        async with trio.open_nursery() as nursery:
            with pytest.raises(Boom):
                await nursery.start(supervisor.run)
        assert stage.take() == "+a +b -b -a"

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
    error = Boom()
    supervisor = stage.supervisor(
        stage.child("a"), stage.child("b"), stage.child("c", farewell_s=5), stage.child("d", escalates=True)
    )

    async def drive() -> None:
        await settle()
        stage.take()
        stage.crash("d", error)
        await crash_after(stage, "b", 1.0)

    assert await escalation_of(supervisor.run, drive) is error
    assert stage.take() == "-d -b -c -a"
    assert [line["actor"] for line in stage.lines("actor.crashed")] == ["d", "b"]


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


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_the_end_is_told_before_any_child_is_stopped(
    stage: Stage, autojump_clock: MockClock, is_cancelled: bool
) -> None:
    alive: list[str] = []
    supervisor = Supervisor(
        "root",
        [stage.child("a"), attrs.evolve(stage.child("b"), escalates=True)],
        log=stage.log,
        ending=lambda: alive.append(stage.take()),
    )

    async def drive() -> None:
        await settle()
        stage.crash("b")

    if is_cancelled:
        async with running(supervisor):
            await settle()
    else:
        await escalation_of(supervisor.run, drive)

    assert alive == ["+a +b" if is_cancelled else "+a +b -b"]
    assert stage.take() == ("-b -a" if is_cancelled else "-a")
