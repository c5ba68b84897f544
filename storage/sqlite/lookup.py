"""What the store holds under the keys of a batch: asked only after a batch was refused, or a partition is new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import apsw

from ...actors.codec import unpack_event, unpack_message
from ..commands import Commit, EmitNumber, NewEvent, NewInbox, NewOutbox, NewRow, Part, Publish
from . import sql
from .known import Known, emit_key
from .numbers import Numbers
from .rows import unpack_content


def find_known(database: apsw.Connection, parts: Iterable[Part]) -> Known:
    """Find the rows that stand under the keys of the parts."""
    known = Known()
    for row, number in _new_rows(parts):
        if isinstance(row, NewInbox):
            key = row.dedupe_key if number is None else emit_key(number)
            _find_inbox(database, key, known)
        elif isinstance(row, NewOutbox):
            _find_outbox(database, row, known)
        elif isinstance(row, NewEvent):
            event_key = row.dedupe_key or (None if number is None else emit_key(number))
            if event_key is not None:
                _find_event(database, event_key, known)
    return known


def find_missing_claims(database: apsw.Connection, part: Commit) -> set[int]:
    """Ids of inbox rows that the part claims and that are not in the store."""
    claimed = {move.after.id for move in part.inbox if move.event == "claim"}
    return {row_id for row_id in claimed if not database.execute(sql.HAS_INBOX, (row_id,)).fetchall()}


def load_places(database: apsw.Connection, parts: Iterable[Part], numbers: Numbers) -> None:
    """Read the ends of the partitions that the parts append to and that were not met yet."""
    for row, _ in _new_rows(parts):
        if isinstance(row, NewInbox):
            place = (row.record.topic, row.record.partition)
            if place not in numbers.offsets:
                ((last,),) = cast(
                    "list[tuple[int | None]]", database.execute(sql.LAST_INBOX_OFFSET, place).fetchall()
                )
                numbers.offsets[place] = 0 if last is None else last + 1
        elif isinstance(row, NewEvent):
            place = (row.event.topic, row.partition)
            if place not in numbers.events:
                ends = cast("list[tuple[int, int]]", database.execute(sql.LAST_EVENT, place).fetchall())
                numbers.events[place] = (ends[0][0] + 1, ends[0][1]) if ends else (0, 0)


def _new_rows(parts: Iterable[Part]) -> Iterator[tuple[NewRow, EmitNumber | None]]:
    for part in parts:
        if isinstance(part, Publish):
            yield part.row, part.relayed
        elif isinstance(part, Commit):
            for new in part.new_outbox:
                yield new, None
            for emit in part.emits:
                yield emit.row, emit.number
            for row in part.arrivals:
                yield row, None


def _find_inbox(database: apsw.Connection, key: str, known: Known) -> None:
    rows = database.execute(sql.FIND_INBOX, (key,)).fetchall()
    for row_id, part, offset, codec, body, emptied in cast(
        "list[tuple[int, int, int, int, bytes, int]]", rows
    ):
        known.inbox[key] = (row_id, part, offset, None if emptied else unpack_message(body, codec))


def _find_event(database: apsw.Connection, key: str, known: Known) -> None:
    rows = database.execute(sql.FIND_EVENT, (key,)).fetchall()
    for row_id, part, offset, codec, body, emptied in cast(
        "list[tuple[int, int, int, int, bytes, int]]", rows
    ):
        known.events[key] = (row_id, part, offset, None if emptied else unpack_event(body, codec))


def _find_outbox(database: apsw.Connection, new: NewOutbox, known: Known) -> None:
    identity = (new.record.channel, new.record.idempotency_key, new.record.part)
    rows = database.execute(sql.FIND_OUTBOX, identity).fetchall()
    for row_id, shard, seq, key, codec, body, emptied in cast(
        "list[tuple[int, int, int, str, int, bytes, int]]", rows
    ):
        first = None if emptied else unpack_content(body, codec, None)
        known.outbox[identity] = (row_id, shard, seq, key, first)
