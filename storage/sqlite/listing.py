"""Pages of messages, sends and dead letters, as lines for people and programs: no bodies beyond their texts."""

# ruff: noqa: S608 (statements are put together from constants of this package alone; values are bound)

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar, cast

import apsw
import attrs
import msgpack

from ...actors.codec import CODEC_VERSION
from ..records import ControlStatus, InboxStatus, OutboxState, StoredControl
from .filters import HELD, Filters, Kind, Where, inbox_where, outbox_where
from .look import Look
from .reader import CONTROL_COLUMNS, DEAD_OUTBOX, read_control
from .rows import CONTENT_CODEC, Row

Line = TypeVar("Line")

MAX_PREVIEW: Final = 200
"""A text in a listing is cut after so many characters."""


@attrs.frozen
class RowId:
    """A row of either table, as people name it: `in-7`, `out-7`."""

    kind: Kind
    number: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.number}"


@attrs.frozen(kw_only=True)
class Page:
    """Which part of a list, newest first.

    Attributes:
        limit: At most so many rows, >= 1.
        offset: How many to pass over.
        after: Only what comes behind this row.
    """

    limit: int = 100
    offset: int = 0
    after: RowId | None = None


@attrs.frozen
class MessageLine:
    """One inbox row. Times are microseconds since 1970 UTC."""

    id: str
    key: str
    topic: str
    channel: str | None
    status: InboxStatus
    part: int
    offset: int
    claim: int
    failures: int
    crashes: int
    generation: int
    accepted_at_us: int
    started_at_us: int | None
    done_at_us: int | None
    dead_at_us: int | None
    next_at_us: int | None
    code: str | None
    own_code: str | None
    error: str | None
    text: str | None


@attrs.frozen
class SendLine:
    """One outbox row. Times are microseconds since 1970 UTC.

    Attributes:
        held: An earlier part of its text waits for a decision.
    """

    id: str
    key: str
    channel: str
    idempotency_key: str
    part: int
    state: OutboxState
    held: bool
    claim: int
    attempts: int
    generation: int
    created_at_us: int
    last_attempt_at_us: int | None
    sent_at_us: int | None
    next_attempt_at_us: int | None
    uncertain_since_us: int | None
    dead_at_us: int | None
    code: str | None
    own_code: str | None
    error: str | None
    platform_message_id: str | None
    caused_by: str | None
    text: str | None


@attrs.frozen
class DeadLine:
    """One dead message or send; `attempts` are failed turns or sends of its last generation."""

    id: str
    key: str
    topic: str | None
    channel: str | None
    dead_at_us: int
    attempts: int
    generation: int
    code: str | None
    own_code: str | None
    error: str | None


_STATE: Final = (
    "CASE WHEN status = 'sent' THEN 'sent' WHEN purged_at IS NOT NULL THEN 'purged' WHEN dead_at IS NOT NULL"
    " THEN 'dead' WHEN status = 'failed' THEN 'failed' WHEN in_flight THEN 'flying'"
    " WHEN uncertain_since IS NULL THEN 'ready' ELSE 'uncertain' END"
)
_INBOX: Final = (
    "SELECT 'in-' || id, conversation_key, topic, channel, status, part, off, claim, failures, crashes, generation,"
    " accepted_at, started_at, done_at, dead_at, next_at, error_code, own_code, last_error, codec, body FROM inbox"
)
_OUTBOX: Final = (
    f"SELECT 'out-' || id, conversation_key, channel, idempotency_key, part, {_STATE}, {HELD}, claim, attempts,"
    " generation, created_at, last_attempt_at, sent_at, next_attempt_at, uncertain_since, dead_at, error_code,"
    " own_code, last_error, platform_message_id, 'in-' || inbox_id, codec, body FROM outbox"
)
_DEAD_INBOX: Final = (
    "SELECT 'in-' || id, conversation_key, topic, channel, dead_at, failures, generation, error_code, own_code,"
    " last_error, id AS row FROM inbox INDEXED BY inbox_dead WHERE status = 'dead'"
)
_DEAD_OUTBOX: Final = (
    "SELECT 'out-' || id, conversation_key, NULL, channel, dead_at, attempts, generation, error_code, own_code,"
    f" last_error, id AS row FROM outbox INDEXED BY outbox_dead WHERE {DEAD_OUTBOX}"
)
# The channels there are, by jumping from each to the next: an identity begins with its channel.
_WITH_KEY: Final = (
    "WITH RECURSIVE known(name) AS (SELECT min(channel) FROM outbox UNION ALL"
    " SELECT (SELECT min(channel) FROM outbox WHERE channel > name) FROM known WHERE name IS NOT NULL)"
    " SELECT outbox.id FROM known JOIN outbox ON channel = name AND idempotency_key = ? ORDER BY outbox.id"
)


def messages(look: Look, filters: Filters, page: Page) -> list[MessageLine]:
    """Accepted messages, the newest first."""
    return _newest(look, _INBOX, inbox_where(filters, look.shard_count), page, _message_line)


def sends(look: Look, filters: Filters, page: Page) -> list[SendLine]:
    """Sends, the newest first."""
    return _newest(look, _OUTBOX, outbox_where(filters, look.shard_count), page, _send_line)


def dead_letters(look: Look, filters: Filters, page: Page) -> list[DeadLine]:
    """Dead messages and sends in one list, the newest death first; at the same moment the higher id first."""
    query = dead_query(filters, page.after, look.shard_count)
    if query is None:
        return []
    return _page(look, *query, page, _dead_line)


def dead_query(filters: Filters, after: RowId | None, shard_count: int) -> Where | None:
    """The statement over both tables and what it binds; None if there can be no such row.

    Both sides come in this order out of their indexes, so a page reads no more than it shows.
    """
    parts: list[str] = []
    bound: Row = ()
    sides: tuple[tuple[Kind, str, Where | None], ...] = (
        ("in", _DEAD_INBOX, inbox_where(filters, shard_count, time="dead_at")),
        ("out", _DEAD_OUTBOX, outbox_where(filters, shard_count, time="dead_at")),
    )
    for kind, select, where in sides:
        if where is not None:
            behind, last = _behind(after, kind)
            parts.append(f"{select} AND {where[0]}{behind}")
            bound = (*bound, *where[1], *last)
    return (f"{' UNION ALL '.join(parts)} ORDER BY dead_at DESC, row DESC, 1", bound) if parts else None


def find_sends(look: Look, idempotency_key: str) -> list[int]:
    """Ids of the sends under a key: one a channel and part."""
    rows = look.read(lambda db: db.execute(_WITH_KEY, (idempotency_key,)).fetchall())
    return [row[0] for row in cast("list[tuple[int]]", rows)]


_Message = tuple[
    str, str, str, str | None, InboxStatus, int, int, int, int, int, int, int, int | None, int | None, int | None,
    int | None, str | None, str | None, str | None,
]  # fmt: skip
_Send = tuple[
    str, str, str, str, int, OutboxState, bool, int, int, int, int, int | None, int | None, int | None, int | None,
    int | None, str | None, str | None, str | None, str | None, str | None,
]  # fmt: skip
_Dead = tuple[
    str, str, str | None, str | None, int, int, int, str | None, str | None, str | None
]  # fmt: skip


def _newest(
    look: Look, select: str, where: Where | None, page: Page, line: Callable[[Row], Line]
) -> list[Line]:
    if where is None:
        return []
    conditions, bound = where
    if page.after is not None:
        conditions, bound = f"{conditions} AND id < ?", (*bound, page.after.number)
    return _page(look, f"{select} WHERE {conditions} ORDER BY id DESC", bound, page, line)


def _behind(after: RowId | None, kind: Kind) -> Where:
    if after is None:
        return "", ()
    table = "inbox" if after.kind == "in" else "outbox"
    # Of two that died at the same moment under the same number the message comes first.
    less = "<" if kind in {after.kind, "in"} else "<="
    return f" AND (dead_at, id) {less} (SELECT dead_at, id FROM {table} WHERE id = ?)", (after.number,)


def _page(look: Look, statement: str, bound: Row, page: Page, line: Callable[[Row], Line]) -> list[Line]:
    def ask(connection: apsw.Connection) -> list[Line]:
        bindings = (*bound, page.limit, page.offset)
        rows = cast("list[Row]", connection.execute(f"{statement} LIMIT ? OFFSET ?", bindings).fetchall())
        # Here, so that a row which cannot be understood is told as damage.
        return [line(row) for row in rows]

    return look.read(ask)


def _message_line(row: Row) -> MessageLine:
    return MessageLine(*cast("_Message", row[:-2]), _message_text(row))


def _send_line(row: Row) -> SendLine:
    line = SendLine(*cast("_Send", row[:-2]), _content_text(row))
    return attrs.evolve(line, held=bool(line.held))


def _dead_line(row: Row) -> DeadLine:
    return DeadLine(*cast("_Dead", row[:-1]))


def _message_text(row: Row) -> str | None:
    codec, body = cast("tuple[int, bytes]", row[-2:])
    return (
        _preview(cast("_Body", msgpack.unpackb(body))["payload"]["text"]) if codec == CODEC_VERSION else None
    )


def _content_text(row: Row) -> str | None:
    codec, body = cast("tuple[int, bytes]", row[-2:])
    return _preview(cast("dict[str, str]", msgpack.unpackb(body))["text"]) if codec == CONTENT_CODEC else None


_Body = dict[str, dict[str, str]]


def _preview(text: str) -> str:
    return text if len(text) <= MAX_PREVIEW else f"{text[:MAX_PREVIEW]}…"


def controls(look: Look, status: ControlStatus | None, *, limit: int, offset: int) -> list[StoredControl]:
    """Control records, the newest first.

    Args:
        status: Only these.
    """
    where = "" if status is None else f" WHERE status = '{status}'"
    statement = f"SELECT {CONTROL_COLUMNS} FROM control{where} ORDER BY n DESC LIMIT ? OFFSET ?"
    return look.read(
        lambda db: [
            read_control(row) for row in cast("list[Row]", db.execute(statement, (limit, offset)).fetchall())
        ]
    )
