"""Reads of one store: each a short statement stepped to its end, so that no read transaction stays open."""

# ruff: noqa: S608 (statements are put together from constants of this package alone; values are bound)

from __future__ import annotations

import os
from typing import Final, cast

import apsw

from ...actors.errors import BusError, Code
from ...actors.keys import shard_of
from ..commands import EmitNumber, Publish
from ..port import LAST_PART, HistoryRow, StoredState
from ..records import (
    ControlStatus,
    InboxRecord,
    InboxStatus,
    OutboxState,
    StoredControl,
    StoredInbox,
    StoredOutbox,
)
from .database import close_connection
from .emits import unpack_emit
from .faults import store_error
from .parts import PartReads
from .past import PastReads
from .rows import InboxColumns, Row, read_inbox, read_inbox_record, read_outbox
from .sql import INBOX_RECORD, OUTBOX_RECORD
from .steps import read_step
from .timers import TimerReads

_INBOX: Final = f"SELECT {INBOX_RECORD}, codec, body, raw FROM inbox"
_OUTBOX: Final = f"SELECT {OUTBOX_RECORD}, inbox_id, codec, body FROM outbox"

# A partial index serves a query that repeats its condition word for word; INDEXED BY makes anything else an error.
OPEN_INBOX: Final = "status IN ('queued', 'running', 'failed')"
ASIDE_INBOX: Final = "status IN ('parked', 'refused', 'purged')"
DEAD_OUTBOX: Final = "dead_at IS NOT NULL AND purged_at IS NULL"
OPEN_OUTBOX: Final = "status <> 'sent' AND dead_at IS NULL"

_NEXT_INBOX_KEY: Final = (
    "SELECT conversation_key FROM inbox INDEXED BY inbox_open"
    f" WHERE shard = ? AND conversation_key > ? AND {OPEN_INBOX} ORDER BY conversation_key LIMIT 1"
)
_INBOX_LANE: Final = (
    f"{_INBOX} INDEXED BY inbox_open"
    f" WHERE shard = ? AND conversation_key = ? AND seq > ? AND {OPEN_INBOX} ORDER BY seq LIMIT ?"
)
_COUNT_INBOX_LANE: Final = (
    "SELECT count(*), max(seq) FROM inbox INDEXED BY inbox_open"
    f" WHERE shard = ? AND conversation_key = ? AND seq > ? AND {OPEN_INBOX}"
)
_OUTBOX_LANE_ROWS: Final = (
    f"shard = ?1 AND conversation_key = ?2 AND (seq, part) > (?3, ?5) AND {OPEN_OUTBOX} ORDER BY seq, part"
)
_OUTBOX_PAGE: Final = (
    f"{_OUTBOX} INDEXED BY outbox_open WHERE shard = ? AND conversation_key > ? AND {OPEN_OUTBOX}"
    " ORDER BY conversation_key, seq, part LIMIT ?"
)
# The page ends with the last row of the text that its last row belongs to.
_OUTBOX_LANE: Final = (
    f"{_OUTBOX} INDEXED BY outbox_open WHERE seq <= coalesce("
    f"(SELECT seq FROM outbox INDEXED BY outbox_open WHERE {_OUTBOX_LANE_ROWS} LIMIT 1 OFFSET ?4 - 1),"
    f" {2**63 - 1}) AND {_OUTBOX_LANE_ROWS}"
)
_COUNT_INBOX: Final = (
    f"SELECT status, count(*) FROM inbox INDEXED BY inbox_open WHERE {OPEN_INBOX} GROUP BY status"
    f" UNION ALL SELECT status, count(*) FROM inbox INDEXED BY inbox_aside WHERE {ASIDE_INBOX} GROUP BY status"
    " UNION ALL SELECT 'dead', count(*) FROM inbox INDEXED BY inbox_dead WHERE status = 'dead'"
    " UNION ALL SELECT 'all', count(*) FROM inbox"
)
_OUTBOX_STATE: Final = (
    "CASE WHEN status = 'failed' THEN 'failed' WHEN in_flight THEN 'flying'"
    " WHEN uncertain_since IS NULL THEN 'ready' ELSE 'uncertain' END"
)
_COUNT_OUTBOX: Final = (
    f"SELECT {_OUTBOX_STATE} AS state, count(*) FROM outbox INDEXED BY outbox_open WHERE {OPEN_OUTBOX} GROUP BY state"
    f" UNION ALL SELECT 'dead', count(*) FROM outbox INDEXED BY outbox_dead WHERE {DEAD_OUTBOX}"
    " UNION ALL SELECT 'purged', count(*) FROM outbox INDEXED BY outbox_purged WHERE purged_at IS NOT NULL"
    " UNION ALL SELECT 'all', count(*) FROM outbox"
)
OUTBOX_CONDITIONS: Final = {
    OutboxState.READY: f"{OPEN_OUTBOX} AND status = 'pending' AND in_flight = 0 AND uncertain_since IS NULL",
    OutboxState.FLYING: "in_flight = 1",
    OutboxState.FAILED: f"{OPEN_OUTBOX} AND status = 'failed'",
    OutboxState.UNCERTAIN: f"{OPEN_OUTBOX} AND status = 'pending' AND in_flight = 0 AND uncertain_since IS NOT NULL",
    OutboxState.DEAD: DEAD_OUTBOX,
    OutboxState.PURGED: "purged_at IS NOT NULL",
    OutboxState.SENT: "status = 'sent'",
}
# As bytes: a foreign writer can leave what is no UTF-8, and such a record must be refused, not stop its reader.
CONTROL_COLUMNS: Final = (
    "n, CAST(id AS BLOB), CAST(verb AS BLOB), CAST(args AS BLOB), CAST(actor AS BLOB), created_at, status,"
    " CAST(code AS BLOB), CAST(result AS BLOB), done_at"
)
_CONTROL: Final = f"SELECT {CONTROL_COLUMNS} FROM control"
HISTORY_COLUMNS: Final = 'id, shard, hseq, kind, identity, "from", "to", event, claim, at, code, instance, h'
_HISTORY: Final = (
    f"SELECT {HISTORY_COLUMNS} FROM history WHERE id > ? AND shard = ? AND hseq > ? ORDER BY id LIMIT ?"
)


class SqliteReader(TimerReads, PastReads, PartReads):
    """The `Reader` over one connection, for one thread.

    Args:
        connection: Closed with the reader if it is `owned`.
        shard_count: Of the store.
        owned: False where the connection is the writer's too.
    """

    def __init__(self, connection: apsw.Connection, shard_count: int, *, owned: bool) -> None:
        self._connection = connection
        self._owned = owned
        self._closed = False
        self._shard_count = shard_count
        self._pid = os.getpid()
        # Where the last page of a chain ended, (hseq, id): the next page begins there without a scan.
        self._history_ends: dict[int, tuple[int, int]] = {}

    @property
    def is_reading(self) -> bool:
        """A transaction is open, which no read of this class leaves behind."""
        return self._connection.txn_state("main") != apsw.SQLITE_TXN_NONE

    def next_inbox_key(self, shard: int, after: str) -> str | None:
        """See `Reader`."""
        rows = self._query(_NEXT_INBOX_KEY, (shard, after))
        return cast("str", rows[0][0]) if rows else None

    def inbox_lane(self, shard: int, key: str, after_seq: int, limit: int) -> list[StoredInbox]:
        """See `Reader`."""
        return [read_inbox(row) for row in self._query(_INBOX_LANE, (shard, key, after_seq, limit))]

    def count_inbox_lane(self, shard: int, key: str, after_seq: int) -> tuple[int, int]:
        """See `Reader`."""
        ((count, last),) = self._query(_COUNT_INBOX_LANE, (shard, key, after_seq))
        return cast("int", count), after_seq if last is None else cast("int", last)

    def outbox_lane(
        self, shard: int, key: str, after_seq: int, limit: int, *, after_part: int = LAST_PART
    ) -> list[StoredOutbox]:
        """See `Reader`."""
        rows = self._query(_OUTBOX_LANE, (shard, key, after_seq, limit, after_part))
        return [read_outbox(row) for row in rows]

    def outbox_page(self, shard: int, after: str, limit: int) -> list[StoredOutbox]:
        """See `Reader`."""
        return [read_outbox(row) for row in self._query(_OUTBOX_PAGE, (shard, after, limit))]

    def claimed(self) -> list[InboxRecord]:
        """See `Reader`."""
        rows = self._query(
            f"SELECT {INBOX_RECORD} FROM inbox INDEXED BY inbox_claimed WHERE status = 'running' ORDER BY id"
        )
        return [read_inbox_record(cast("InboxColumns", row)) for row in rows]

    def crashed(self) -> list[InboxRecord]:
        """See `Reader`."""
        rows = self._query(
            f"SELECT {INBOX_RECORD} FROM inbox INDEXED BY inbox_crashed"
            " WHERE crashes >= 2 AND status IN ('queued', 'failed') ORDER BY id"
        )
        return [read_inbox_record(cast("InboxColumns", row)) for row in rows]

    def flying(self) -> list[StoredOutbox]:
        """See `Reader`."""
        rows = self._query(f"{_OUTBOX} INDEXED BY outbox_flying WHERE in_flight = 1 ORDER BY id")
        return [read_outbox(row) for row in rows]

    def uncertain(self, channel: str, after_id: int, limit: int) -> list[StoredOutbox]:
        """See `Reader`."""
        rows = self._query(
            f"{_OUTBOX} INDEXED BY outbox_uncertain WHERE channel = ? AND id > ? AND uncertain_since IS NOT NULL"
            " AND status = 'pending' AND in_flight = 0 ORDER BY id LIMIT ?",
            (channel, after_id, limit),
        )
        return [read_outbox(row) for row in rows]

    def inbox(self, row_id: int) -> StoredInbox | None:
        """See `Reader`."""
        rows = self._query(f"{_INBOX} WHERE id = ?", (row_id,))
        return read_inbox(rows[0]) if rows else None

    def has_inbox(self, dedupe_key: str) -> bool:
        """See `Reader`."""
        return bool(self._query("SELECT 1 FROM inbox WHERE dedupe_key = ?", (dedupe_key,)))

    def outbox(self, row_id: int) -> StoredOutbox | None:
        """See `Reader`."""
        rows = self._query(f"{_OUTBOX} WHERE id = ?", (row_id,))
        return read_outbox(rows[0]) if rows else None

    def find_outbox(self, channel: str, idempotency_key: str, part: int) -> StoredOutbox | None:
        """See `Reader`."""
        rows = self._query(
            f"{_OUTBOX} WHERE channel = ? AND idempotency_key = ? AND part = ?",
            (channel, idempotency_key, part),
        )
        return read_outbox(rows[0]) if rows else None

    def list_inbox(
        self, *, status: InboxStatus | None, key: str | None, offset: int, limit: int
    ) -> list[StoredInbox]:
        """See `Reader`."""
        order = "dead_at DESC, id DESC" if status is InboxStatus.DEAD else "id DESC"
        where, bindings = self._where(None if status is None else inbox_condition(status), key)
        rows = self._query(f"{_INBOX}{where} ORDER BY {order} LIMIT ? OFFSET ?", (*bindings, limit, offset))
        return [read_inbox(row) for row in rows]

    def list_outbox(
        self, *, state: OutboxState | None, key: str | None, offset: int, limit: int
    ) -> list[StoredOutbox]:
        """See `Reader`."""
        order = "dead_at DESC, id DESC" if state is OutboxState.DEAD else "id DESC"
        where, bindings = self._where(None if state is None else OUTBOX_CONDITIONS[state], key)
        rows = self._query(f"{_OUTBOX}{where} ORDER BY {order} LIMIT ? OFFSET ?", (*bindings, limit, offset))
        return [read_outbox(row) for row in rows]

    def dead_messages(self, until_us: int, limit: int) -> list[StoredInbox]:
        """See `Reader`."""
        rows = self._query(
            f"{_INBOX} INDEXED BY inbox_dead WHERE status = 'dead' AND dead_at <= ? ORDER BY dead_at, id LIMIT ?",
            (until_us, limit),
        )
        return [read_inbox(row) for row in rows]

    def dead_sends(self, until_us: int, limit: int) -> list[StoredOutbox]:
        """See `Reader`."""
        rows = self._query(
            f"{_OUTBOX} INDEXED BY outbox_dead WHERE {DEAD_OUTBOX} AND dead_at <= ? ORDER BY dead_at, id LIMIT ?",
            (until_us, limit),
        )
        return [read_outbox(row) for row in rows]

    def count_inbox(self) -> dict[InboxStatus, int]:
        """See `Reader`."""
        counts = dict(cast("list[tuple[str, int]]", self._query(_COUNT_INBOX)))
        counts[InboxStatus.DONE] = counts.pop("all") - sum(counts.values())
        return {status: counts.get(status, 0) for status in InboxStatus}

    def count_outbox(self) -> dict[OutboxState, int]:
        """See `Reader`."""
        counts = dict(cast("list[tuple[str, int]]", self._query(_COUNT_OUTBOX)))
        counts[OutboxState.SENT] = counts.pop("all") - sum(counts.values())
        return {state: counts.get(state, 0) for state in OutboxState}

    def count_undecided(self) -> int:
        """See `Reader`."""
        rows = self._query(
            "SELECT count(*) FROM outbox INDEXED BY outbox_uncertain"
            " WHERE uncertain_since IS NOT NULL AND status = 'pending' AND next_attempt_at IS NULL"
        )
        return cast("int", rows[0][0])

    def count_retried(self) -> tuple[int, int]:
        """See `Reader`."""
        rows = self._query("SELECT retried_turns, retried_sends FROM store_commit")
        return cast("tuple[int, int]", rows[0])

    def state(self, conversation_key: str) -> StoredState | None:
        """See `Reader`."""
        rows = self._query("SELECT state, state_version FROM conversation WHERE key = ?", (conversation_key,))
        return StoredState(*cast("tuple[bytes, int]", rows[0])) if rows else None

    def step(self, inbox_id: int, name: str) -> bytes | None:
        """See `Reader`."""
        rows = self._query("SELECT codec, value FROM step WHERE inbox_id = ? AND name = ?", (inbox_id, name))
        return read_step(rows[0]) if rows else None

    def fact(self, namespace: str, key: str) -> bytes | None:
        """See `Reader`."""
        rows = self._query("SELECT value FROM fact WHERE namespace = ? AND key = ?", (namespace, key))
        return cast("bytes", rows[0][0]) if rows else None

    def facts(self, namespace: str, prefix: str, limit: int) -> list[tuple[str, bytes]]:
        """See `Reader`."""
        # No key has a character above the last code point, so this is where the prefix ends.
        rows = self._query(
            "SELECT key, value FROM fact WHERE namespace = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?",
            (namespace, prefix, f"{prefix}\U0010ffff", limit),
        )
        return cast("list[tuple[str, bytes]]", rows)

    def waiting_controls(self, limit: int) -> list[StoredControl]:
        """See `Reader`."""
        rows = self._query(
            f"{_CONTROL} INDEXED BY control_waiting WHERE status = 'waiting' ORDER BY n LIMIT ?", (limit,)
        )
        return [read_control(row) for row in rows]

    def control(self, control_id: str) -> StoredControl | None:
        """See `Reader`."""
        rows = self._query(f"{_CONTROL} WHERE id = ?", (control_id,))
        return read_control(rows[0]) if rows else None

    def emits(self, shard: int, limit: int) -> list[tuple[EmitNumber, Publish]]:
        """See `Reader`."""
        rows = self._query(
            "SELECT seq, i, codec, body FROM emit WHERE shard = ? ORDER BY seq, i LIMIT ?", (shard, limit)
        )
        found: list[tuple[EmitNumber, Publish]] = []
        for seq, index, codec, body in cast("list[tuple[int, int, int, bytes]]", rows):
            number = EmitNumber(shard, seq, index)
            found.append((number, unpack_emit(number, codec, body)))
        return found

    def history(self, shard: int, after_hseq: int, limit: int) -> list[HistoryRow]:
        """See `Reader`."""
        hseq, after_id = self._history_ends.get(shard, (0, 0))
        rows = self._query(_HISTORY, (after_id if after_hseq >= hseq else 0, shard, after_hseq, limit))
        if rows:
            self._history_ends[shard] = (cast("int", rows[-1][2]), cast("int", rows[-1][0]))
        return [read_history(row) for row in rows]

    def close(self) -> None:
        """End reading: reads are BUS_CLOSED from then on."""
        self._closed = True
        if self._owned:
            close_connection(self._connection)

    def _where(self, condition: str | None, key: str | None) -> tuple[str, Row]:
        conditions = [] if condition is None else [condition]
        bindings: Row = ()
        if key is not None:
            # The shard lets the index of the open rows serve; for settled rows it changes nothing.
            conditions += ["shard = ?", "conversation_key = ?"]
            bindings = (shard_of(key, self._shard_count), key)
        return (f" WHERE {' AND '.join(conditions)}" if conditions else ""), bindings

    def _query(self, statement: str, bindings: Row = ()) -> list[Row]:
        if os.getpid() != self._pid:
            raise BusError(Code.FORKED, "a store belongs to the process that opened it")
        if self._closed:
            raise BusError(Code.BUS_CLOSED, "the store is closed")
        try:
            return cast("list[Row]", self._connection.execute(statement, bindings).fetchall())
        except apsw.Error as error:
            raise store_error(error, "the store cannot be read") from error


def read_control(row: Row) -> StoredControl:
    """A row of `CONTROL_COLUMNS`."""
    number, control_id, verb, args, actor, created_at, status, code, result, done_at = cast(
        "tuple[int, bytes, bytes, bytes, bytes, int, str, bytes | None, bytes | None, int | None]", row
    )
    return StoredControl(
        id=_text(control_id),
        verb=_text(verb),
        args=_text(args),
        actor=_text(actor),
        created_at_us=created_at,
        status=ControlStatus(status),
        code=None if code is None else _text(code),
        result=None if result is None else _text(result),
        done_at_us=done_at,
        number=number,
    )


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def inbox_condition(status: InboxStatus) -> str:
    if status in {InboxStatus.QUEUED, InboxStatus.RUNNING, InboxStatus.FAILED}:
        return f"{OPEN_INBOX} AND status = '{status}'"
    if status in {InboxStatus.PARKED, InboxStatus.REFUSED, InboxStatus.PURGED}:
        return f"{ASIDE_INBOX} AND status = '{status}'"
    return f"status = '{status}'"


def read_history(row: Row) -> HistoryRow:
    """A row of `HISTORY_COLUMNS`."""
    (
        _, shard, hseq, kind, identity, before, after, event, claim, at_us, code, instance, h,
    ) = cast("tuple[int, int, int, str, int, str, str, str, int, int, str | None, int, bytes]", row)  # fmt: skip
    return HistoryRow(
        shard=shard,
        hseq=hseq,
        kind=kind,
        identity=identity,
        before=before,
        after=after,
        event=event,
        claim=claim,
        at_us=at_us,
        code=code,
        instance=instance,
        h=h,
    )
