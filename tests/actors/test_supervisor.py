import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from shardline.actors.child import Child
from shardline.actors.errors import BusError, Code
from shardline.actors.restart import Restart, Strategy
from shardline.actors.supervisor import ChildSpec, ChildState
from tests.kits.stage import Boom, Stage, running, settle, states


@pytest.fixture
def stage() -> Stage:
    return Stage()


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
    assert str(lines[0]["site"]).startswith(f"{Stage.__module__}:")
    assert "secret" not in str(lines)
    assert [line["restarts"] for line in stage.lines("actor.restarted")] == [1, 2]


async def test_statistics_are_in_child_order(stage: Stage, autojump_clock: MockClock) -> None:
    supervisor = stage.supervisor(*map(stage.child, "ba"))
    assert [(child.name, child.state) for child in supervisor.statistics()] == [
        ("b", ChildState.WAITING),
        ("a", ChildState.WAITING),
    ]
    assert supervisor.name == "top"
