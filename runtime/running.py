"""The turns under way, the oldest first: who is busy, and for how long."""

from __future__ import annotations

import heapq
from operator import attrgetter
from typing import TYPE_CHECKING

import trio

from ..actors.value import value
from .defaults import TURN_OVERDUE_S

if TYPE_CHECKING:
    from .services import Services

_SHOWN_TURNS = 50


@value(kw_only=True)
class RunningTurn:
    """A handler that has begun and not ended.

    Attributes:
        inbox_id: Its message.
        age_s: How long it has run.
        limit_s: Its time limit; it may be past it where it does not heed its end.
        overdue: It runs longer than `turn_overdue_s` of the defaults.
    """

    topic: str
    channel: str | None
    conversation_key: str
    inbox_id: int
    age_s: float
    limit_s: float
    overdue: bool


@value(kw_only=True)
class RunningTurns:
    """All turns under way: how many, how many of them overdue, and the oldest few."""

    count: int
    overdue: int
    oldest: tuple[RunningTurn, ...]


def running_turns(services: Services) -> RunningTurns:
    """Look at every worker; the list is the oldest 50."""
    now_s = trio.current_time()
    turns = [begun for actor in services.topics.values() for begun in actor.pool.begun]
    found = [
        RunningTurn(
            topic=turn.row.record.topic,
            channel=turn.row.record.channel,
            conversation_key=turn.lane.key,
            inbox_id=turn.row.record.id,
            age_s=now_s - begun_s,
            limit_s=turn.timeout_s,
            overdue=now_s - begun_s >= min(TURN_OVERDUE_S, turn.timeout_s),
        )
        for turn, begun_s in turns
    ]
    return RunningTurns(
        count=len(found),
        overdue=sum(turn.overdue for turn in found),
        oldest=tuple(heapq.nlargest(_SHOWN_TURNS, found, key=attrgetter("age_s"))),
    )


__all__ = ["RunningTurn", "RunningTurns", "running_turns"]
