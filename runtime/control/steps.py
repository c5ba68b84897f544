"""The verbs that take more than one commit: each notes how far they have come, so a cut loses and repeats nothing.

A step is on disk with what it tells of or not at all. Whoever carries the record out next goes on behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...actors.errors import BusError, Code, Permanence
from ...actors.plain import Plain
from ...actors.strict_json import dumps, loads
from ...storage.commands import ControlPart, ControlStep
from ...storage.records import StoredControl
from ..outbox_rules import Requeue as RequeueSend
from .hands import StoreHands
from .verbs import Requeue, RowRef

_PAGE_ROWS: Final = 200
"""Rows that a purge looks up at once; each commit has those of one shard."""


def is_passing(error: BusError) -> bool:
    """Whether what failed can be tried again: the store is full, a shard restarts, the runtime stops."""
    if error.code is Code.HANDLER_FAILED:
        return False
    return error.code.permanence is Permanence.TRANSIENT or error.code in {Code.BUS_CLOSED, Code.FENCED}


def progress_of(control: StoredControl | None) -> Mapping[str, Plain]:
    """How far a record has come, or its result; nothing where a foreign writer left what is none."""
    if control is None or control.result is None:
        return {}
    try:
        found = loads(control.result)
    except BusError:
        return {}
    return found if isinstance(found, dict) else {}


def stored_control(control: StoredControl, hands: StoreHands) -> StoredControl | None:
    """A record as it stands by now; None for one that cannot be found by its id, as a foreign writer may leave it."""
    found = hands.reader.control(control.id)
    return found if found is not None and found.number == control.number else None


async def requeue_row(row: RowRef, hands: StoreHands, control: ControlPart | None) -> None:
    """Send one row through again.

    Raises:
        BusError: NOT_FOUND; INVALID_TRANSITION, it is not dead or parked (any more).
    """
    if row.kind == "in":
        await hands.requeue_message(row.id, control)
    else:
        await hands.move_send(row.id, RequeueSend(), control)


async def requeue_rows(verb: Requeue, control: StoredControl, hands: StoreHands) -> dict[str, Plain]:
    """Send several rows through again, a commit each.

    Returns:
        Which are `requeued`, which `refused` and why.
    Raises:
        BusError: one that passes; what was done is on disk.
    """
    done, refused = _rows_of(control)
    while len(done) + len(refused) < len(verb.rows):
        row = verb.rows[len(done) + len(refused)]
        step = ControlStep(control.number, dumps({"requeued": [*done, str(row)], "refused": refused}))
        try:
            await requeue_row(row, hands, step)
        except BusError as error:
            if is_passing(error):
                raise
            # An earlier try of ours that got no answer may be on disk by now.
            stored = _rows_of(stored_control(control, hands))
            if sum(map(len, stored)) > len(done) + len(refused):
                done, refused = stored
            else:
                refused.append({"row": str(row), "code": str(error.code)})
        else:
            done.append(str(row))
    return {"requeued": done, "refused": refused}


async def purge_dead(
    hands: StoreHands, until_us: int, control: StoredControl | None = None
) -> dict[str, int]:
    """Empty all that died at that time or before, a shard's part of a page a commit.

    Args:
        hands: What commits.
        until_us: Microseconds since 1970 UTC.
        control: The record that asks for it.
    Returns:
        How many `messages` and `sends`; with those that were emptied before a cut.
    Raises:
        BusError: one that passes; STALE_CLAIM, the record has ended.
    """
    told = progress_of(control)
    counts = {name: _count(told.get(name)) for name in ("messages", "sends")}
    was_stale = False
    while True:
        messages = hands.reader.dead_messages(until_us, _PAGE_ROWS)
        sends = [] if messages else hands.reader.dead_sends(until_us, _PAGE_ROWS)
        if not messages and not sends:
            return counts
        stale: BusError | None = None
        shards = {row.record.shard for row in messages} | {row.record.shard for row in sends}
        for shard in sorted(shards):
            some_messages = [row for row in messages if row.record.shard == shard]
            some_sends = [row for row in sends if row.record.shard == shard]
            after = {
                "messages": counts["messages"] + len(some_messages),
                "sends": counts["sends"] + len(some_sends),
            }
            step = None if control is None else ControlStep(control.number, dumps(dict(after)))
            try:
                await hands.purge(shard, some_messages, some_sends, step)
            except BusError as error:
                # Somebody requeued one of them meanwhile: the next page is without it.
                if error.code is not Code.STALE_CLAIM:
                    raise
                stale = error
            else:
                counts = after
        if stale is not None and was_stale:
            raise stale
        was_stale = stale is not None


def _rows_of(control: StoredControl | None) -> tuple[list[Plain], list[Plain]]:
    told = progress_of(control)
    return _list(told.get("requeued")), _list(told.get("refused"))


def _list(told: Plain) -> list[Plain]:
    return list(told) if isinstance(told, list) else []


def _count(told: Plain) -> int:
    return told if isinstance(told, int) else 0
