"""Takes rows away that are past their time; part of an open transaction.

What a log or a chain needs to go on is kept first: the last offset of each partition, and an anchor for each shard
whose history is cut. The space is used again by rows that come; the file does not shrink.
"""

# ruff: noqa: S608 (statements are put together from constants of this module alone; values are bound)

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, cast

import apsw
import attrs

from ...actors.codec import CODEC_VERSION, pack_message, unpack_message
from ...actors.extensions import EMPTY
from ..pruning import Prune, PruneKind
from ..records import OutboundContent
from .chain import ANCHOR_ROWS
from .rows import CONTENT_CODEC, pack_content

_DAY_US: Final = 86_400_000_000
_THESE: Final = "IN (SELECT value FROM json_each(?))"

ENDED_INBOX: Final = "status IN ('done', 'refused', 'purged')"
ENDED_OUTBOX: Final = "(status = 'sent' OR purged_at IS NOT NULL)"

_ENDS: Final = (
    "INSERT INTO log_end (topic, part, off, ts) SELECT topic, part, max(off), max({at}) FROM {table}"
    f" WHERE id {_THESE} GROUP BY topic, part"
    " ON CONFLICT (topic, part) DO UPDATE SET off = max(off, excluded.off), ts = max(ts, excluded.ts)"
)
_END_MESSAGES: Final = _ENDS.format(at="accepted_at", table="inbox")
_END_EVENTS: Final = _ENDS.format(at="ts", table="event")

_DROP: Final[dict[PruneKind, str]] = {
    "messages": f"DELETE FROM inbox WHERE id {_THESE} AND {ENDED_INBOX}",
    "sends": f"DELETE FROM outbox WHERE id {_THESE} AND {ENDED_OUTBOX}",
    "events": f"DELETE FROM event WHERE id {_THESE}",
    "controls": f"DELETE FROM control WHERE n {_THESE} AND status <> 'waiting'",
    "instances": f"DELETE FROM instance WHERE id {_THESE}",
}
_DROP_STEPS: Final = f"DELETE FROM step WHERE inbox_id {_THESE}"

_READ_MESSAGES: Final = (
    f"SELECT id, codec, body FROM inbox WHERE id {_THESE}"
    " AND status IN ('done', 'refused') AND emptied_at IS NULL"
)
_EMPTY_MESSAGE: Final = (
    "UPDATE inbox SET codec = ?, body = ?, raw = NULL, participant_key = NULL, errors = '[]', last_error = NULL,"
    " emptied_at = ?, change_seq = ? WHERE id = ?"
)
_EMPTY_SEND: Final = (
    "UPDATE outbox SET codec = ?, body = ?, errors = '[]', last_error = NULL, emptied_at = ?, change_seq = ?"
    " WHERE id = ? AND status = 'sent' AND emptied_at IS NULL"
)
_EMPTY_EVENTS: Final = f"UPDATE event SET body = x'', key = NULL, emptied_at = ? WHERE id {_THESE}"

_CUT: Final = (
    "SELECT shard, hseq, h FROM history"
    " WHERE id IN (SELECT max(id) FROM history WHERE id <= ? GROUP BY shard)"
)
_ANCHOR: Final = "INSERT INTO anchor (shard, hseq, h, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
# One cut a day and shard stays named, beside the anchors that are due by number.
_DROP_ANCHORS: Final = (
    f"DELETE FROM anchor WHERE shard = ? AND hseq < ? AND at >= ? AND hseq % {ANCHOR_ROWS} <> 0"
)
_DROP_HISTORY: Final = "DELETE FROM history WHERE id <= ?"


def prune(database: apsw.Connection, pruned: Prune, change_seq: int, at_us: int) -> None:
    """Take away and empty what is named, as far as it has ended.

    Args:
        database: In a transaction.
        pruned: What.
        change_seq: Below the numbers of the emptied rows.
        at_us: Now.
    """
    kind, rows = pruned.kind, _json(pruned.rows)
    if kind == "history":
        _cut_history(database, pruned.rows, at_us)
        return
    if pruned.rows:
        if kind == "messages":
            database.execute(_END_MESSAGES, (rows,))
            database.execute(_DROP_STEPS, (rows,))
        elif kind == "events":
            database.execute(_END_EVENTS, (rows,))
        database.execute(_DROP[kind], (rows,))
    if pruned.emptied:
        _empty(database, pruned, change_seq, at_us)


def _empty(database: apsw.Connection, pruned: Prune, change_seq: int, at_us: int) -> None:
    ids = _json(pruned.emptied)
    if pruned.kind == "messages":
        stored = cast("list[tuple[int, int, bytes]]", database.execute(_READ_MESSAGES, (ids,)).fetchall())
        changes = [
            (CODEC_VERSION, _emptied(body, codec), at_us, change_seq + number, row_id)
            for number, (row_id, codec, body) in enumerate(stored, 1)
        ]
        database.executemany(_EMPTY_MESSAGE, changes)
        database.execute(_DROP_STEPS, (ids,))
    elif pruned.kind == "sends":
        nothing = pack_content(OutboundContent(text=""))
        numbered = enumerate(pruned.emptied, change_seq + 1)
        database.executemany(
            _EMPTY_SEND, [(CONTENT_CODEC, nothing, at_us, change, row_id) for change, row_id in numbered]
        )
    elif pruned.kind == "events":
        database.execute(_EMPTY_EVENTS, (at_us, ids))


def _emptied(body: bytes, codec: int) -> bytes:
    message = unpack_message(body, codec)
    return pack_message(
        attrs.evolve(
            message,
            payload=attrs.evolve(message.payload, text=""),
            participant_key=None,
            extensions=EMPTY,
            raw=None,
        )
    )


def _cut_history(database: apsw.Connection, rows: Sequence[int], at_us: int) -> None:
    for last_id in rows:
        cut = cast("list[tuple[int, int, bytes]]", database.execute(_CUT, (last_id,)).fetchall())
        database.executemany(_ANCHOR, [(shard, hseq, h, at_us) for shard, hseq, h in cut])
        today_us = at_us - at_us % _DAY_US
        database.executemany(_DROP_ANCHORS, [(shard, hseq, today_us) for shard, hseq, _ in cut])
        database.execute(_DROP_HISTORY, (last_id,))


def _json(ids: Sequence[int]) -> str:
    return json.dumps(ids)
