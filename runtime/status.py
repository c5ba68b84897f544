"""Where a runtime stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ..actors.child import ChildStatistics
from ..storage.records import InboxStatus, OutboxState
from .breakers import breaker_statuses
from .channel_status import ChannelStatus, channel_status
from .intake import IntakeStatus
from .running import RunningTurn, running_turns
from .store_health import StoreHealth, store_health
from .turn_breaker import BreakerStatus

if TYPE_CHECKING:
    from .services import Services


@attrs.frozen(kw_only=True)
class Status:
    """Where a runtime stands.

    Attributes:
        inbox, outbox: Stored rows by status and state; totals of the store.
        retried: Retries recorded in the history: of turns and of sends.
        run: Counters of this run, by name.
        timers: How many are set.
        next_timer_at_us: When the next of them is due.
        tokens_free: Tokens the edges may still take.
        running_turns, running_sends: Under way now.
        overdue_turns: Turns that run longer than their limit, or than `turn_overdue_s` of the defaults.
        oldest_turns: The turns that have run the longest, at most 50.
        intake: Whether edges read, and how much waits.
        store: Whether the store is well.
        breakers: One for each handler that has one, and with `send_breaker` one for each channel.
        channels: The sending side of each channel, by name.
        pruned: Rows that retention took away or emptied in this run, by kind.
        lanes: Conversations in memory, those with messages and those with sends counted apart; soon 0 when all is idle.
        actors: The actor tree: what the root supervises, in start order.
    """

    inbox: Mapping[InboxStatus, int]
    outbox: Mapping[OutboxState, int]
    retried: tuple[int, int]
    run: Mapping[str, int]
    timers: int = 0
    next_timer_at_us: int | None = None
    tokens_free: int
    running_turns: int
    running_sends: int
    overdue_turns: int
    oldest_turns: tuple[RunningTurn, ...]
    intake: IntakeStatus
    store: StoreHealth
    breakers: tuple[BreakerStatus, ...]
    channels: Mapping[str, ChannelStatus]
    pruned: Mapping[str, int] = attrs.field(factory=dict[str, int])
    lanes: int
    actors: tuple[ChildStatistics, ...]


def status_of(services: Services, actors: tuple[ChildStatistics, ...]) -> Status:
    """Ask the store and the parts of a runtime."""
    reader, turns, intake = services.store.reader, running_turns(services), services.intake.status()
    return Status(
        inbox=reader.count_inbox(),
        outbox=reader.count_outbox(),
        retried=reader.count_retried(),
        run=dict(services.counters),
        timers=reader.count_timers(),
        next_timer_at_us=reader.next_timer_us(),
        tokens_free=services.tokens.free,
        running_turns=turns.count,
        running_sends=sum(len(delivery.pool.running) for delivery in services.deliveries.values()),
        overdue_turns=turns.overdue,
        oldest_turns=turns.oldest,
        intake=intake,
        store=store_health(services.store.condition, intake),
        breakers=breaker_statuses(services),
        channels={name: channel_status(delivery) for name, delivery in services.deliveries.items()},
        pruned=dict(services.pruned),
        lanes=services.lanes,
        actors=actors,
    )


__all__ = ["Status", "status_of"]
