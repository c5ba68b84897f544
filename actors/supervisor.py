"""A supervisor: starts its children in order, restarts them by its strategy, stops them in reverse.

Children tell their end by a synchronous call, and what follows is decided there and then by the rules of
`restart.py`: leave it, escalate, or plan a *wave*: stop a group in reverse order, wait for the back-off, start the
group in order. A crash inside the group of a wave under way replaces that wave by one that covers both.
"""

from collections.abc import Callable, Iterable, Sequence

import attrs
import trio
from structlog.typing import FilteringBoundLogger

from .child import Child, ChildSpec, ChildState, ChildStatistics
from .crash_trace import crash_site, crash_trace
from .errors import BusError, Code, error_code_of
from .restart import Backoff, RestartBudget, Strategy, affected, should_restart, spend

__all__ = ["ChildSpec", "ChildState", "ChildStatistics", "Supervisor"]


@attrs.define(eq=False)
class _Wave:
    """Stop `stops` in reverse order, sleep `delay_s`, then start those of `waiting` in order."""

    stops: list[Child]
    waiting: list[Child]
    delay_s: float
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    def is_replaced(self) -> bool:
        """Whether another wave, or the end of the supervisor, has taken over."""
        return self.scope.cancel_called


class Supervisor:
    """Runs children and decides what their end means. It can itself be a child: `as_child`.

    Args:
        name: For logs.
        children: Shape (n,); in start order, names unique.
        strategy: Who shares a crash.
        budget: What is more escalates; counted over all children, one for each crash, whatever it takes along.
        backoff: The delay before a restart, by the number of restarts in the budget's period.
        log: Gets `actor.crashed`, `actor.restarted` and `actor.escalated`.
        crashed: Called for each crash of a child that is no supervisor: how a crash is counted once, however far it
            escalates.
        ending: Called when it begins to end, however that comes, before any child is stopped.
    Raises:
        ValueError: Two children of one name.
    """

    def __init__(
        self,
        name: str,
        children: Sequence[ChildSpec],
        *,
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        budget: RestartBudget = RestartBudget(),
        backoff: Backoff = Backoff(),
        log: FilteringBoundLogger,
        crashed: Callable[[], None] | None = None,
        ending: Callable[[], None] | None = None,
    ) -> None:
        self._name = name
        self._strategy = strategy
        self._budget = budget
        self._backoff = backoff
        self._log = log
        self._crashed = crashed
        self._ending = ending
        self._children: dict[str, Child] = {}
        for spec in children:
            self._enter(Child(spec, is_added=False))
        self._nursery: trio.Nursery | None = None
        self._task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
        self._waves: list[_Wave] = []
        self._restarts_s: tuple[float, ...] = ()
        # `started()` is called when the last of them has started.
        self._unstarted: set[Child] = set()
        self._is_up = True
        self._has_started = False
        self._over = trio.Event()
        self._escalated: Exception | None = None

    @property
    def name(self) -> str:
        """For logs."""
        return self._name

    @property
    def has_started(self) -> bool:
        """Whether it has come up once since it was made, with every child started."""
        return self._has_started

    @property
    def escalated(self) -> Exception | None:
        """What its last run ended with; None if that was stopped or goes on."""
        return self._escalated

    def statistics(self) -> tuple[ChildStatistics, ...]:
        """Look at the children.

        Returns:
            Shape (n,); in child order.
        """
        return tuple(child.statistics() for child in self._children.values())

    def as_child(self, *, escalates: bool | Callable[[Exception], bool] = False) -> ChildSpec:
        """Declare it as a permanent child of another supervisor; for `escalates` see `ChildSpec`."""
        return ChildSpec(self._name, self.run, escalates=escalates, children=self.statistics)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the children until cancelled, or until a crash escalates. May be called again after it has ended.

        Either way every child has ended before this does: each is cancelled and awaited, the last one first.

        Args:
            task_status: Told when every child has started.
        Raises:
            Exception: What escalated, as the child raised it; a group with one exception inside is that exception.
            BusError: BUS_CLOSED, a permanent child returned without an exception and that escalated.
            RuntimeError: It runs already.
        """
        if self._nursery is not None:
            raise RuntimeError(f"supervisor {self._name!r} runs already")
        self._restarts_s = ()
        self._escalated = None
        self._over = trio.Event()
        self._task_status = task_status
        self._unstarted = set(self._children.values())
        self._is_up = False
        try:
            async with trio.open_nursery() as self._nursery:
                try:
                    self._plan(self._unstarted, delay_s=0.0)
                    self._note_started()
                    await self._over.wait()
                finally:
                    with trio.CancelScope(shield=True):
                        await self._stop_all()
        finally:
            self._nursery = None
        if self._escalated is not None:
            raise self._escalated

    def add(self, spec: ChildSpec) -> None:
        """Take in one more child, as the last; it starts soon, or with the next `run`.

        It is forgotten when it has ended for good. A temporary one ends with this run, others start with the next.

        Raises:
            ValueError: There is a child of this name.
        """
        child = Child(spec, is_added=True)
        self._enter(child)
        if self._nursery is None or self._over.is_set():
            return
        if self._waves and self._strategy is not Strategy.ONE_FOR_ONE:
            # The ones before it are still to start.
            self._waves[-1].waiting.append(child)
        else:
            self._plan([child], delay_s=0.0)

    async def remove(self, name: str) -> None:
        """Stop a child, wait for its end and forget it.

        Raises:
            KeyError: No child of this name.
        """
        child = self._children.pop(name)
        for wave in self._waves:
            if child in wave.waiting:
                wave.waiting.remove(child)
        self._note_settled(child)
        await child.stop()

    def _enter(self, child: Child) -> None:
        if child.name in self._children:
            raise ValueError(f"supervisor {self._name!r} has a child {child.name!r} already")
        self._children[child.name] = child

    def _plan(self, children: Iterable[Child], *, delay_s: float) -> None:
        wanted = set(children)
        for wave in self._waves[:]:
            if not wanted.isdisjoint(wave.waiting):
                wanted.update(wave.waiting)
                wave.scope.cancel()
                self._waves.remove(wave)
        ordered = [child for child in self._children.values() if child in wanted]
        stops = [child for child in ordered if child.is_alive]
        # All at once: a sibling that crashes because of this crash is no second one.
        for child in stops:
            child.mark_stopping()
        waiting = [child for child in ordered if not (child.is_alive and child.is_temporary)]
        for child in waiting:
            if not child.is_alive:
                child.state = ChildState.WAITING
        wave = _Wave(stops, waiting, delay_s)
        self._waves.append(wave)
        self._open().start_soon(self._go_wave, wave, name=f"{self._name}: wave")

    async def _go_wave(self, wave: _Wave) -> None:
        with wave.scope:
            for child in reversed(wave.stops):
                await child.stop()
            await trio.sleep(wave.delay_s)
            while wave.waiting:
                child = wave.waiting[0]
                await child.launch(self._open(), self._on_end)
                if wave.is_replaced():
                    break
                # `remove` may have been quicker.
                if child in wave.waiting:
                    wave.waiting.remove(child)
                if child.state is ChildState.RUNNING and child.restarts:
                    self._log.info(
                        "actor.restarted", supervisor=self._name, actor=child.name, restarts=child.restarts
                    )
                self._note_settled(child)
        if wave in self._waves:
            self._waves.remove(wave)

    def _on_end(self, child: Child, was: ChildState, error: Exception | None) -> None:
        if error is not None:
            self._note_crash(child, was, error)
        spec = child.spec
        runs_on = should_restart(spec.restart, crashed=error is not None)
        if was is ChildState.STOPPING or self._over.is_set():
            if child.is_temporary:
                self._end_for_good(child)
        elif (runs_on or error is not None) and spec.ends_all(error):
            self._escalate(child, error)
        elif not runs_on:
            self._end_for_good(child)
        elif spec.excuses(error):
            self._restart(child, delay_s=self._backoff.max_s)
        else:
            spent_s = spend(self._restarts_s, trio.current_time(), self._budget)
            if spent_s is None:
                self._escalate(child, error)
                return
            self._restarts_s = spent_s
            self._restart(child, delay_s=self._backoff.delay_s(len(spent_s) - 1))

    def _restart(self, child: Child, *, delay_s: float) -> None:
        names = affected(self._strategy, list(self._children), child.name)
        group = [self._children[name] for name in names]
        # Siblings that have ended for good stay so.
        again = [one for one in group if one is child or one.state is not ChildState.ENDED]
        self._plan(again, delay_s=delay_s)

    def _end_for_good(self, child: Child) -> None:
        if child.is_added and self._children.get(child.name) is child:
            del self._children[child.name]
        self._note_settled(child)

    def _escalate(self, child: Child, error: Exception | None) -> None:
        self._escalated = error or BusError(
            Code.BUS_CLOSED, "a permanent actor has ended", actor=child.name, supervisor=self._name
        )
        self._log.error(
            "actor.escalated",
            supervisor=self._name,
            actor=child.name,
            error_type=type(self._escalated).__name__,
            bus_error_code=error_code_of(self._escalated),
        )
        self._finish()
        if child.is_temporary:
            self._end_for_good(child)

    def _finish(self) -> None:
        """Start nothing more, from this very step on."""
        self._over.set()
        self._is_up = True
        for wave in self._waves:
            wave.scope.cancel()
        self._waves.clear()

    async def _stop_all(self) -> None:
        self._finish()
        if self._ending is not None:
            self._ending()
        for child in reversed(list(self._children.values())):
            await child.stop()

    def _note_settled(self, child: Child) -> None:
        self._unstarted.discard(child)
        self._note_started()

    def _note_started(self) -> None:
        if not self._unstarted and not self._is_up:
            self._is_up = self._has_started = True
            self._task_status.started()

    def _note_crash(self, child: Child, was: ChildState, error: Exception) -> None:
        child.note_crash(error)
        if self._crashed is not None and child.spec.children is None:
            self._crashed()
        self._log.error(
            "actor.crashed",
            supervisor=self._name,
            actor=child.name,
            state=was.value,
            error_type=type(error).__name__,
            bus_error_code=error_code_of(error),
            site=crash_site(error),
            crashes=child.crashes,
        )
        self._log.debug(
            "actor.crash_traced", supervisor=self._name, actor=child.name, exception=crash_trace(error)
        )

    def _open(self) -> trio.Nursery:
        if self._nursery is None:
            raise RuntimeError(f"supervisor {self._name!r} does not run")
        return self._nursery
