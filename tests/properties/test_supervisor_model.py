"""A tree of supervisors does what a model of it says, deed by deed: who runs, in which order, and what escalates.

Between two deeds all restarts have happened; or the tree is stopped in the middle of a back-off, and run again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import attrs
import structlog
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import LogCapture
from trio.testing import MockClock

from shardline.actors.child import ChildStatistics, Start
from shardline.actors.errors import BusError, Code
from shardline.actors.restart import Backoff, Restart, RestartBudget, Strategy
from shardline.actors.supervisor import ChildSpec, ChildState, Supervisor
from tests.kits.supervisor_model import Cut, Excused, Fatal, Model, Node, Ordinary

# The budgets' short period is two steps and a half: no deed falls on its edge.
STEP_S = 10.0
PERIODS_S = (25.0, 1e6)
# Longer than all ends and starts of one deed, shorter than any back-off.
CUT_S = 0.05
MOVE_S = 0.001


@attrs.frozen
class Deed:
    """What happens to the node at `at`; with `is_cut` the tree is stopped before anything restarts."""

    verb: str
    at: int
    leaf: Node
    is_cut: bool


TYPES = st.sampled_from([Restart.PERMANENT, Restart.PERMANENT, *Restart])
ESCALATES = st.sampled_from(["never", "never", "fatal", "always"])
LEAVES = st.builds(Node, restart=TYPES, escalates=ESCALATES, excuses=st.booleans())
ERRORS: dict[str, type[Exception] | None] = {
    "crash": Ordinary,
    "fatal": Fatal,
    "excused": Excused,
    "end": None,
}
DEEDS = st.builds(
    Deed,
    verb=st.sampled_from([*ERRORS, "crash", "add", "remove", "fail starts", "run again"]),
    at=st.integers(0, 11),
    leaf=LEAVES,
    is_cut=st.integers(0, 4).map(lambda n: n == 4),
)


def supervisors(children: st.SearchStrategy[Node], most: int) -> st.SearchStrategy[Node]:
    return st.builds(
        Node,
        restart=TYPES,
        escalates=ESCALATES,
        excuses=st.booleans(),
        children=st.lists(children, max_size=most),
        strategy=st.sampled_from(Strategy),
        budget=st.builds(RestartBudget, st.integers(0, 2), st.sampled_from(PERIODS_S)),
    )


TREES = supervisors(st.one_of(LEAVES, supervisors(LEAVES, 3)), 4)


def is_fatal(error: Exception) -> bool:
    return isinstance(error, Fatal)


def is_excused(error: Exception) -> bool:
    return isinstance(error, Excused)


class Troupe:
    """The real tree, built as the model says."""

    def __init__(self, root: Node) -> None:
        self.events: list[str] = []
        self.leaf_crashes = 0
        self.is_up = False
        self.escaped: Exception | None = None
        self.capture = LogCapture()
        self._log = structlog.wrap_logger(
            None, processors=[self.capture], wrapper_class=structlog.make_filtering_bound_logger(0)
        )
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._orders: dict[str, trio.MemorySendChannel[Exception | None]] = {}
        self._faults: dict[str, deque[Exception]] = {}
        self._supervisors: dict[str, Supervisor] = {}
        self._root = self._build(root, root.children or [])

    def started(self, value: None = None) -> None:
        """The tree is up."""
        self.is_up = True

    async def run(self) -> None:
        """One run of the tree."""
        self.is_up, self.escaped = False, None
        self._ended = trio.Event()
        with trio.CancelScope() as self._scope:
            try:
                await self._root.run(task_status=self)
            except (Ordinary, Fatal, Excused, BusError) as error:
                self.escaped = error
        self._ended.set()

    async def stop(self) -> None:
        """Cancel the run and wait for its end."""
        self._scope.cancel()
        await self._ended.wait()

    def end(self, name: str, error: Exception | None) -> None:
        """Let an actor end."""
        self._orders[name].send_nowait(error)

    def fail_starts(self, name: str, errors: Sequence[Exception]) -> None:
        """Let the next starts of an actor fail."""
        self._faults[name].extend(errors)

    def add(self, to: str, node: Node) -> None:
        """Add an actor."""
        self._supervisors[to].add(self._spec(node))

    async def remove(self, name: str, of: str) -> None:
        """Remove an actor or a supervisor."""
        await self._supervisors[of].remove(name)

    def statistics(self) -> tuple[ChildStatistics, ...]:
        """Look at the tree."""
        return self._root.statistics()

    def _build(self, node: Node, children: Sequence[Node]) -> Supervisor:
        supervisor = self._supervisors[node.name] = Supervisor(
            node.name,
            [self._spec(child) for child in children],
            strategy=node.strategy,
            budget=node.budget,
            backoff=Backoff(initial_s=0.1, max_s=0.2),
            log=self._log,
            crashed=self._note_crash,
        )
        return supervisor

    def _spec(self, node: Node) -> ChildSpec:
        escalates = is_fatal if node.escalates == "fatal" else node.escalates == "always"
        if node.children is None:
            self._faults[node.name] = deque()
            spec = ChildSpec(node.name, self._leaf(node.name), restart=node.restart, escalates=escalates)
        else:
            spec = self._build(node, node.children).as_child(escalates=escalates)
        return attrs.evolve(
            spec,
            restart=node.restart,
            is_excused=is_excused if node.excuses else None,
        )

    def _leaf(self, name: str) -> Start:
        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            self.events.append(f"+{name}")
            try:
                await trio.sleep(MOVE_S)
                if self._faults[name]:
                    raise self._faults[name].popleft()
                self._orders[name], orders = trio.open_memory_channel[Exception | None](1)
                task_status.started()
                error = await orders.receive()
                if error is not None:
                    raise error
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(MOVE_S)
                self.events.append(f"-{name}")

        return start

    def _note_crash(self) -> None:
        self.leaf_crashes += 1


class Play:
    """Both side by side."""

    def __init__(self, root: Node) -> None:
        self.model = Model(root)
        self.troupe = Troupe(root)

    async def perform(self, deeds: Sequence[Deed]) -> None:
        async with trio.open_nursery() as nursery:
            await self.go(lambda: self.begin(nursery), is_cut=False)
            for deed in deeds:
                if not self.model.root.runs:
                    await self.go(lambda: self.begin(nursery), is_cut=False)
                await self.do(deed, nursery)
            self.model.stop()
            await self.troupe.stop()
            self.check()

    async def do(self, deed: Deed, nursery: trio.Nursery) -> None:
        """One deed, where there is somebody to do it to."""
        model, troupe = self.model, self.troupe
        nodes = list(model.root.walk())
        of_verb = {
            "add": [node for node in nodes if node.children is not None],
            "remove": nodes[1:],
            "fail starts": [node for node in nodes if node.children is None],
            "run again": nodes[:1],
        }.get(deed.verb, [node for node in nodes if node.children is None and node.runs])
        if not of_verb:
            return
        node = of_verb[deed.at % len(of_verb)]
        match deed.verb:
            case "add":
                model.add(node, deed.leaf)
                troupe.add(node.name, deed.leaf)
                await trio.sleep(STEP_S)
            case "remove":
                assert node.parent is not None
                model.remove(node)
                await troupe.remove(node.name, node.parent.name)
            case "fail starts":
                errors = [Excused() if deed.leaf.excuses else Ordinary() for _ in range(1 + deed.at % 2)]
                node.faults.extend(errors)
                troupe.fail_starts(node.name, errors)
            case "run again":
                model.stop()
                await troupe.stop()
                self.check()
                await self.go(lambda: self.begin(nursery), is_cut=deed.is_cut)
            case _:
                kind = ERRORS[deed.verb]
                await self.go(lambda: self.end(node, None if kind is None else kind()), is_cut=deed.is_cut)
        self.check()

    async def go(self, act: Callable[[], None], *, is_cut: bool) -> None:
        """Let both act and come to rest, or be stopped in a back-off."""
        self.model.cuts = is_cut
        with suppress(Cut):
            act()
        await trio.sleep(CUT_S if is_cut else STEP_S)
        if is_cut:
            self.model.cuts = False
            self.model.stop()
            await self.troupe.stop()
        self.check()

    def begin(self, nursery: trio.Nursery) -> None:
        nursery.start_soon(self.troupe.run)
        self.model.run(trio.current_time())

    def end(self, leaf: Node, error: Exception | None) -> None:
        self.troupe.end(leaf.name, error)
        self.model.end(leaf, error, trio.current_time())

    def check(self) -> None:
        """They have done the same, and look the same."""
        model, troupe = self.model, self.troupe
        assert troupe.events == model.events
        compare(model.root.children or [], troupe.statistics())
        assert troupe.leaf_crashes == model.leaf_crashes
        crashed = [line for line in troupe.capture.entries if line["event"] == "actor.crashed"]
        assert len(crashed) == model.crashes
        assert troupe.is_up is model.is_up
        if isinstance(model.escaped, BusError):
            assert isinstance(troupe.escaped, BusError)
            assert troupe.escaped.code is Code.BUS_CLOSED
        else:
            assert troupe.escaped is model.escaped


def compare(nodes: Sequence[Node], looks: Sequence[ChildStatistics]) -> None:
    """A look at the real tree shows what the model knows."""
    assert [look.name for look in looks] == [node.name for node in nodes]
    for node, look in zip(nodes, looks, strict=True):
        state = (
            ChildState.RUNNING if node.runs else ChildState.ENDED if node.has_ended else ChildState.WAITING
        )
        assert (look.name, look.state) == (node.name, state)
        assert (look.restarts, look.crashes) == (max(0, node.starts - 1), node.crashes)
        error_type = None if node.last_error is None else type(node.last_error).__name__
        assert look.last_error_type == error_type
        compare(node.children or [], look.children)


@settings(deadline=None, max_examples=200)
@given(root=TREES, deeds=st.lists(DEEDS, max_size=10))
def test_a_tree_of_supervisors_does_what_the_model_says(root: Node, deeds: list[Deed]) -> None:
    async def main() -> None:
        with trio.fail_after(100_000):
            await Play(root).perform(deeds)

    trio.run(main, clock=MockClock(autojump_threshold=0))
