"""Timers as rows and rows as timers; what each write of them does; the reads."""

# ruff: noqa: S608 (statements are put together from constants of this package alone; values are bound)

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, cast

import msgpack

from ...actors.errors import BusError, Code
from ...actors.plain import Plain
from ...actors.record import optional_count, optional_map, optional_text
from ..commands import DropTimer, NewTimer, TimerMove, TimerWrite
from ..records import StoredTimer, TimerContent, TimerRecord
from . import sql
from .plan import TimerStep
from .rows import Row

TIMER_CODEC: Final = 1
"""Version of a timer's packed content, stored beside it."""

_TIMER: Final = f"SELECT {sql.TIMER_RECORD}, codec, body FROM timer"
# The index gives both, however many timers are due: the rowid is the order in which they were set.
_DUE: Final = f"{_TIMER} WHERE due_at <= ? ORDER BY due_at, rowid LIMIT ?"
_FUTURE: Final = (
    f"{_TIMER} INDEXED BY timer_begun WHERE wait IS NOT NULL AND due_at - wait > ?"
    " ORDER BY due_at - wait LIMIT ?"
)
# The character after "-": all ids that begin with `every-`.
_DECLARED: Final = f"{_TIMER} WHERE id >= 'every-' AND id < 'every.' ORDER BY id"

_Columns = tuple[
    str, int, Literal["message", "event"], str, int, str | None, int, int | None, str | None, str | None, int,
    int, bytes,
]  # fmt: skip


def timer_step(write: TimerWrite, shard: int) -> TimerStep:
    """The statement of one write.

    Raises:
        BusError: IDENTITY_MISMATCH, the timer is at home in another shard; INVALID_MESSAGE, it cannot be packed.
    """
    if shard_of_timer(write) != shard:
        raise BusError(Code.IDENTITY_MISMATCH, f"a timer of another shard than {shard}", shard=shard)
    if isinstance(write, NewTimer):
        row = timer_row(write.record, write.content)
        return (sql.REPLACE_TIMER, row, True) if write.replaces else (sql.SET_TIMER, row, False)
    if isinstance(write, DropTimer):
        return sql.DROP_TIMER, (write.id, shard), False
    before, after = write.before, write.after
    guard = (before.id, shard, before.due_at_us)
    if after is None:
        return sql.END_TIMER, guard, True
    return sql.MOVE_TIMER, (after.due_at_us, after.wait_us, *guard), True


def shard_of_timer(write: TimerWrite) -> int:
    """The home of the timer that is written."""
    if isinstance(write, NewTimer):
        return write.record.shard
    return write.before.shard if isinstance(write, TimerMove) else write.shard


def timer_row(record: TimerRecord, content: TimerContent) -> Row:
    """The bindings of `SET_TIMER`."""
    return (
        record.id, record.shard, record.kind, record.topic, record.partition, record.conversation_key,
        record.due_at_us, record.wait_us, record.rule, record.zone, record.created_at_us, TIMER_CODEC,
        _pack_content(content),
    )  # fmt: skip


def read_timer(row: Row) -> StoredTimer:
    """A row of `TIMER_RECORD`, codec, body.

    Raises:
        BusError: SCHEMA_TOO_NEW, an unknown version; INVALID_MESSAGE, damaged bytes.
    """
    timer_id, shard, kind, topic, part, key, due_at, wait, rule, zone, created_at, codec, body = cast(
        "_Columns", row
    )
    record = TimerRecord(
        id=timer_id,
        shard=shard,
        kind=kind,
        topic=topic,
        partition=part,
        conversation_key=key,
        due_at_us=due_at,
        wait_us=wait,
        rule=rule,
        zone=zone,
        created_at_us=created_at,
    )
    return StoredTimer(record, _unpack_content(body, codec))


def pack_new_timer(new: NewTimer) -> dict[str, Plain]:
    """A timer that waits as an emit; a declared one is never emitted, so `replaces` is not kept."""
    return {"row": list(timer_row(new.record, new.content))}


def unpack_new_timer(packed: dict[str, Plain]) -> NewTimer:
    """Read `pack_new_timer`.

    Raises:
        BusError: as `read_timer`.
    """
    stored = read_timer(cast("Row", tuple(cast("list[Plain]", packed["row"]))))
    return NewTimer(record=stored.record, content=stored.content)


class TimerReads:
    """The part of a `Reader` that is about timers."""

    if TYPE_CHECKING:

        def _query(self, statement: str, bindings: Row = ()) -> list[Row]: ...

    def due_timers(self, until_us: int, limit: int) -> list[StoredTimer]:
        """See `Reader`."""
        return [read_timer(row) for row in self._query(_DUE, (until_us, limit))]

    def next_timer_us(self) -> int | None:
        """See `Reader`."""
        ((due_us,),) = self._query("SELECT min(due_at) FROM timer")
        return cast("int | None", due_us)

    def future_timers(self, now_us: int, limit: int) -> list[StoredTimer]:
        """See `Reader`."""
        return [read_timer(row) for row in self._query(_FUTURE, (now_us, limit))]

    def declared_timers(self) -> list[StoredTimer]:
        """See `Reader`."""
        return [read_timer(row) for row in self._query(_DECLARED)]

    def timer(self, timer_id: str) -> StoredTimer | None:
        """See `Reader`."""
        rows = self._query(f"{_TIMER} WHERE id = ?", (timer_id,))
        return read_timer(rows[0]) if rows else None

    def list_timers(
        self, *, key: str | None, topic: str | None, offset: int, limit: int
    ) -> list[StoredTimer]:
        """See `Reader`."""
        given = [(name, value) for name, value in (("conversation_key", key), ("topic", topic)) if value]
        where = " AND ".join(f"{name} = ?" for name, _ in given) or "1"
        statement = f"{_TIMER} WHERE {where} ORDER BY due_at, rowid LIMIT ? OFFSET ?"
        return [read_timer(row) for row in self._query(statement, (*(v for _, v in given), limit, offset))]

    def count_timers(self) -> int:
        """See `Reader`."""
        ((count,),) = self._query("SELECT count(*) FROM timer")
        return cast("int", count)


def _pack_content(content: TimerContent) -> bytes:
    record: dict[str, Plain] = {"payload": content.payload}
    if content.headers:
        record["headers"] = dict(content.headers)
    if content.correlation_id is not None:
        record["correlation_id"] = content.correlation_id
    if content.causation_id is not None:
        record["causation_id"] = content.causation_id
    if content.hops:
        record["hops"] = content.hops
    try:
        return msgpack.packb(record)
    except (UnicodeEncodeError, OverflowError) as error:
        raise BusError(Code.INVALID_MESSAGE, f"the timer cannot be stored: {error}") from error


def _unpack_content(data: bytes, version: int) -> TimerContent:
    if version != TIMER_CODEC:
        raise BusError(Code.SCHEMA_TOO_NEW, f"a stored timer has codec version {version}", version=version)
    try:
        record = cast("dict[str, Plain]", msgpack.unpackb(data))
        return TimerContent(
            payload=record["payload"],
            headers=cast("dict[str, str]", optional_map(record, "headers")),
            correlation_id=optional_text(record, "correlation_id"),
            causation_id=optional_text(record, "causation_id"),
            hops=optional_count(record, "hops") or 0,
        )
    except (ValueError, KeyError, AttributeError, msgpack.UnpackException) as error:
        raise BusError(Code.STORE_CORRUPT, f"a stored timer is damaged: {error!r}") from error


__all__ = [
    "TIMER_CODEC",
    "TimerReads",
    "pack_new_timer",
    "read_timer",
    "shard_of_timer",
    "timer_row",
    "timer_step",
    "unpack_new_timer",
]
