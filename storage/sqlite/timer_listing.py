"""Pages of timers, as lines for people and programs."""

# ruff: noqa: S608 (statements are put together from constants of this package alone; values are bound)

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import attrs

from ...actors.strict_json import dumps
from ..records import StoredTimer
from .listing import MAX_PREVIEW
from .look import Look
from .rows import Row
from .sql import TIMER_RECORD
from .timers import read_timer


@attrs.frozen
class TimerLine:
    """One timer. Times are microseconds since 1970 UTC."""

    id: str
    key: str | None
    topic: str
    kind: str
    due_at_us: int
    wait_s: float | None
    rule: str | None
    zone: str | None
    created_at_us: int
    text: str | None


_CONDITIONS: Final[Mapping[str, str]] = {
    "id": "id = ?",
    "key": "conversation_key = ?",
    "topic": "topic = ?",
    "since": "due_at >= ?",
    "until": "due_at <= ?",
}


def timers(look: Look, chosen: Mapping[str, str | int], *, limit: int, offset: int) -> list[TimerLine]:
    """Timers, the next one first.

    Args:
        look: The store.
        chosen: What they have in common, by field; `since` and `until` are due times, both ends count.
        limit: At most so many.
        offset: How many to pass over.
    """
    where = " AND ".join(_CONDITIONS[name] for name in chosen) or "1"
    statement = (
        f"SELECT {TIMER_RECORD}, codec, body FROM timer WHERE {where} ORDER BY due_at, rowid LIMIT ? OFFSET ?"
    )
    bound = (*chosen.values(), limit, offset)
    return [
        _line(read_timer(row))
        for row in look.read(lambda db: cast("list[Row]", db.execute(statement, bound).fetchall()))
    ]


def _line(timer: StoredTimer) -> TimerLine:
    record, payload = timer.record, timer.content.payload
    text = payload if isinstance(payload, str) else dumps(payload, sort_keys=True)
    return TimerLine(
        id=record.id,
        key=record.conversation_key,
        topic=record.topic,
        kind=record.kind,
        due_at_us=record.due_at_us,
        wait_s=None if record.wait_us is None else record.wait_us / 1_000_000,
        rule=record.rule,
        zone=record.zone,
        created_at_us=record.created_at_us,
        text=text if len(text) <= MAX_PREVIEW else f"{text[:MAX_PREVIEW]}…",
    )
