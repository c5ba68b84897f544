"""Any story of crashes, ends, additions and removals keeps the promises on order and comes to rest."""

from contextlib import suppress

import attrs
import structlog
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from shardline.actors.restart import Backoff, Restart, RestartBudget, Strategy
from shardline.actors.supervisor import ChildSpec, ChildState, Supervisor


@attrs.frozen
class Deed:
    """After `wait_s`, something happens to the child at `at`; a crash may come with one of another child."""

    wait_s: float
    verb: str
    at: int
    also: int


DEEDS = st.builds(
    Deed,
    wait_s=st.sampled_from([0.0, 0.05, 0.1, 0.15, 0.2, 0.5]),
    verb=st.sampled_from(["crash", "crash two", "end", "add", "remove"]),
    at=st.integers(0, 7),
    also=st.integers(0, 7),
)


class Troupe:
    """Children with a start and an end that take time, checked at each of their events."""

    def __init__(self, strategy: Strategy, restarts: list[Restart]) -> None:
        self.alive: dict[str, trio.MemorySendChannel[bool]] = {}
        self.made = 0
        self.supervisor = Supervisor(
            "top",
            [self.spec(restart) for restart in restarts],
            strategy=strategy,
            budget=RestartBudget(intensity=1000),
            backoff=Backoff(initial_s=0.1, max_s=0.2),
            log=structlog.wrap_logger(
                structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(50)
            ),
        )
        self.shares_crashes = strategy is not Strategy.ONE_FOR_ONE
        self.is_stopping = False
        # Collected: an assertion inside a child would only be one more crash.
        self.broken: list[str] = []

    def spec(self, restart: Restart) -> ChildSpec:
        self.made += 1
        name = f"c{self.made}"

        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            self.check_start(name)
            self.alive[name], orders = trio.open_memory_channel[bool](1)
            try:
                await trio.sleep(0.05)
                task_status.started()
                if await orders.receive():
                    raise ValueError(name)
            finally:
                self.check_later_ended(name)
                with trio.CancelScope(shield=True):
                    await trio.sleep(0.03)
                del self.alive[name]

        return ChildSpec(name, start, restart=restart)

    def check_start(self, name: str) -> None:
        if name in self.alive:
            self.broken.append(f"{name} has two lives at once")
        if self.is_stopping:
            self.broken.append(f"{name} starts after the stop")
        if self.shares_crashes:
            for child in self.supervisor.statistics():
                if child.name == name:
                    break
                if child.state in {ChildState.WAITING, ChildState.STARTING}:
                    self.broken.append(f"{name} starts before {child.name}")

    def check_later_ended(self, name: str) -> None:
        names = [child.name for child in self.supervisor.statistics()]
        if self.is_stopping and name in names and set(names[names.index(name) + 1 :]) & set(self.alive):
            self.broken.append(f"{name} ends before {list(self.alive)}")

    async def do(self, deed: Deed) -> None:
        await trio.sleep(deed.wait_s)
        names = sorted(self.alive)
        match deed.verb:
            case "add":
                self.supervisor.add(self.spec(list(Restart)[deed.at % 3]))
            case "remove":
                known = [child.name for child in self.supervisor.statistics()]
                if known:
                    await self.supervisor.remove(known[deed.at % len(known)])
            case _ if names:
                self.order(names[deed.at % len(names)], crash=deed.verb != "end")
                if deed.verb == "crash two":
                    self.order(names[deed.also % len(names)], crash=True)
            case _:
                pass

    def order(self, name: str, *, crash: bool) -> None:
        # One that has its order already keeps it.
        with suppress(trio.WouldBlock, trio.BrokenResourceError):
            self.alive[name].send_nowait(crash)

    async def play(self, deeds: list[Deed]) -> None:
        with trio.fail_after(1000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.supervisor.run)
                for deed in deeds:
                    await self.do(deed)
                await trio.sleep(50)

                for child in self.supervisor.statistics():
                    assert child.state in {ChildState.RUNNING, ChildState.ENDED}
                    assert (child.name in self.alive) == (child.state is ChildState.RUNNING)
                self.is_stopping = True
                nursery.cancel_scope.cancel()
        assert self.alive == {}
        assert self.broken == []


@settings(deadline=None)
@given(
    strategy=st.sampled_from(Strategy),
    restarts=st.lists(st.sampled_from([Restart.PERMANENT, *Restart]), max_size=5),
    deeds=st.lists(DEEDS, max_size=10),
)
def test_any_story_comes_to_rest(strategy: Strategy, restarts: list[Restart], deeds: list[Deed]) -> None:
    troupe = Troupe(strategy, restarts)
    trio.run(troupe.play, deeds, clock=MockClock(autojump_threshold=0))
