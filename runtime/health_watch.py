"""Asks the parts of a runtime how they are, and remembers since when each thing has been so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import trio

from .breakers import breaker_statuses
from .channel_status import channel_status
from .health import Facts, Health, health_of, judge
from .running import running_turns

if TYPE_CHECKING:
    from ..actors.child import ChildStatistics
    from .edge import EdgeActor
    from .services import Services


_SET_US: Final = 1_000_000
"""Clocks drift apart by less while anything lasts; what is more was set by somebody."""


class HealthWatch:
    """Looks when it is asked; nothing runs for it, and nothing is noted per message.

    Args:
        services: The runtime's parts.
        edges: The adapters' reading sides.
        statistics: The same as their supervisor sees them.
    """

    def __init__(
        self,
        services: Services,
        edges: Sequence[EdgeActor],
        statistics: Callable[[], Sequence[ChildStatistics]],
    ) -> None:
        self._services = services
        self._edges = edges
        self._statistics = statistics
        # By word and what it is about: since when, by both clocks.
        self._since: dict[tuple[str, str], tuple[int, float]] = {}

    def look(self) -> Health:
        """How the runtime is now."""
        clock = self._services.clock
        now = clock.wall_us(), clock.mono_s()
        found = list(judge(self._facts()))
        self._since = {
            (reason.word, reason.about): self._since.get((reason.word, reason.about), now) for reason in found
        }
        return health_of(
            attrs.evolve(reason, since_us=_on_this_wall(self._since[reason.word, reason.about], now))
            for reason in found
        )

    @property
    def log_bytes(self) -> int:
        """Length of the store's write-ahead log; 0 where it has none."""
        return self._services.store.condition.log.size_bytes

    def _facts(self) -> Facts:
        services, now_s = self._services, trio.current_time()
        store = services.store
        condition = store.condition
        reports = {edge.adapter.name: edge.reports.at(now_s) for edge in self._edges}
        return Facts(
            # While nothing but messages comes in, no commit waits: they are refused.
            trouble=condition.code or services.intake.store.current_code,
            moved=condition.moved,
            log=condition.log,
            intake=services.intake.status(),
            overdue_turns=running_turns(services).overdue,
            suspects=len(services.gate.awaited),
            breakers=breaker_statuses(services),
            channels={name: channel_status(delivery) for name, delivery in services.deliveries.items()},
            edges=tuple(self._statistics()),
            reports={name: report for name, report in reports.items() if report is not None},
            uncertain=store.reader.count_undecided(),
            dead=services.counters.get("dead", 0),
        )


def _on_this_wall(since: tuple[int, float], now: tuple[int, float]) -> int:
    """A time as the wall clock has it now, microseconds since 1970 UTC: it may have been set since."""
    measured_us = now[0] - round((now[1] - since[1]) * 1_000_000)
    return measured_us if abs(measured_us - since[0]) >= _SET_US else since[0]


__all__ = ["HealthWatch"]
