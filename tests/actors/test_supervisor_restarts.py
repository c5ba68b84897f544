import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from shardline.actors.actor import Actor
from shardline.actors.restart import Backoff, Restart, RestartBudget, Strategy
from shardline.actors.supervisor import ChildSpec
from tests.kits.stage import Boom, Stage, crash_after, running, settle, states


@pytest.fixture
def stage() -> Stage:
    return Stage()


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


async def test_a_restart_overtaken_in_the_tick_of_its_start_starts_nothing(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep(5)
        stage.events.append("-a")
        raise Boom

    for _ in range(20):
        supervisor = stage.supervisor(
            ChildSpec("a", start),
            stage.child("b"),
            strategy=Strategy.REST_FOR_ONE,
            backoff=Backoff(initial_s=5, max_s=5),
        )
        async with running(supervisor):
            stage.take()
            # The back-off of b and the life of a end in one tick, in any order.
            stage.crash("b")
            await trio.sleep(11)

            assert stage.take() == "-b -a +b"
            assert states(supervisor) == {"a": "running", "b": "running"}


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
