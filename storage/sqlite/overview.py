"""What a store holds, in numbers: for the command `status`."""

# ruff: noqa: S608 (statements are put together from constants of this package alone; values are bound)

from __future__ import annotations

from typing import Final, Literal, cast

import apsw
import attrs

from ..records import InboxStatus, OutboxState
from .filters import Kind
from .look import Look, StoreMeta
from .owner import Owner, find_owner, read_openings
from .reader import OPEN_INBOX, OPEN_OUTBOX, OUTBOX_CONDITIONS


@attrs.frozen(kw_only=True)
class DeadCount:
    """Dead rows that gave up for the same reason."""

    kind: Kind
    code: str | None
    own_code: str | None
    count: int


@attrs.frozen(kw_only=True)
class Waiting:
    """The oldest row that waits."""

    id: str
    key: str
    state: str
    since_us: int


@attrs.frozen(kw_only=True)
class Overview:
    """One look at a store. Times are microseconds since 1970 UTC.

    Attributes:
        last_transition_at_us: Of the newest row of the history; None in a store that nothing happened in.
        retried: Turns and sends that were tried again.
        timers: How many are set.
        next_timer_at_us: When the next of them is due; None where none is set.
        live: What its owner wrote of itself, as stored; None where none did.
    """

    meta: StoreMeta
    owner: Owner
    inbox: dict[InboxStatus, int]
    outbox: dict[OutboxState, int]
    retried: tuple[int, int]
    dead: list[DeadCount]
    oldest_message: Waiting | None
    oldest_send: Waiting | None
    oldest_uncertain: Waiting | None
    last_transition_at_us: int | None
    timers: int
    next_timer_at_us: int | None
    live: bytes | None


INSTANCE_STATUS: Final = ("core", "instance_status")
"""Namespace and key of the fact in which an owner says how it is."""

_DEAD: Final = (
    "SELECT 'in' AS kind, error_code, own_code, count(*) FROM inbox INDEXED BY inbox_dead WHERE status = 'dead'"
    " GROUP BY error_code, own_code UNION ALL"
    " SELECT 'out', error_code, own_code, count(*) FROM outbox INDEXED BY outbox_dead"
    f" WHERE {OUTBOX_CONDITIONS[OutboxState.DEAD]} GROUP BY error_code, own_code ORDER BY 4 DESC, 1, 2, 3"
)
_DEAD_UNTIL: Final = (
    "SELECT (SELECT count(*) FROM inbox INDEXED BY inbox_dead WHERE status = 'dead' AND dead_at <= ?),"
    f" (SELECT count(*) FROM outbox INDEXED BY outbox_dead WHERE {OUTBOX_CONDITIONS[OutboxState.DEAD]}"
    " AND dead_at <= ?)"
)
# Ids grow with arrival and stand in every index, so the oldest is found in the index alone.
_OLDEST_MESSAGE: Final = (
    "SELECT 'in-' || id, conversation_key, status, accepted_at FROM inbox"
    f" WHERE id = (SELECT min(id) FROM inbox INDEXED BY inbox_open WHERE {OPEN_INBOX})"
)
_OLDEST_SEND: Final = (
    "SELECT 'out-' || id, conversation_key, iif(in_flight, 'flying', iif(status = 'failed', 'failed', 'ready')),"
    " created_at FROM outbox WHERE id = (SELECT min(id) FROM outbox INDEXED BY outbox_open"
    f" WHERE {OPEN_OUTBOX} AND NOT (status = 'pending' AND in_flight = 0 AND uncertain_since IS NOT NULL))"
)
_OLDEST_UNCERTAIN: Final = (
    "SELECT 'out-' || id, conversation_key, 'uncertain', uncertain_since FROM outbox WHERE id = (SELECT min(id)"
    " FROM outbox INDEXED BY outbox_uncertain WHERE uncertain_since IS NOT NULL AND status = 'pending'"
    " AND in_flight = 0)"
)


def overview(look: Look) -> Overview:
    """Count everything."""
    last = look.read(lambda db: read_openings(db, 1))
    return Overview(
        meta=look.meta,
        owner=find_owner(look.path, last[0] if last else None),
        inbox=look.ask(lambda reader: reader.count_inbox()),
        outbox=look.ask(lambda reader: reader.count_outbox()),
        retried=look.ask(lambda reader: reader.count_retried()),
        dead=dead_counts(look),
        oldest_message=_waiting(look, _OLDEST_MESSAGE),
        oldest_send=_waiting(look, _OLDEST_SEND),
        oldest_uncertain=_waiting(look, _OLDEST_UNCERTAIN),
        last_transition_at_us=look.read(_last_transition),
        timers=look.ask(lambda reader: reader.count_timers()),
        next_timer_at_us=look.ask(lambda reader: reader.next_timer_us()),
        live=look.ask(lambda reader: reader.fact(*INSTANCE_STATUS)),
    )


def count_dead(look: Look, until_us: int) -> tuple[int, int]:
    """How many messages and sends a purge of all that died at that time or before would empty."""
    rows = look.read(lambda db: db.execute(_DEAD_UNTIL, (until_us, until_us)).fetchall())
    return cast("list[tuple[int, int]]", rows)[0]


def dead_counts(look: Look) -> list[DeadCount]:
    """Dead rows by reason, the most frequent first."""
    rows = look.read(lambda db: db.execute(_DEAD).fetchall())
    return [
        DeadCount(kind=kind, code=code, own_code=own_code, count=count)
        for kind, code, own_code, count in cast(
            "list[tuple[Literal['in', 'out'], str | None, str | None, int]]", rows
        )
    ]


def _waiting(look: Look, statement: str) -> Waiting | None:
    rows = look.read(lambda db: db.execute(statement).fetchall())
    if not rows:
        return None
    row_id, key, state, since = cast("tuple[str, str, str, int]", rows[0])
    return Waiting(id=row_id, key=key, state=state, since_us=since)


def _last_transition(connection: apsw.Connection) -> int | None:
    rows = connection.execute("SELECT at FROM history ORDER BY id DESC LIMIT 1").fetchall()
    return cast("int", rows[0][0]) if rows else None
