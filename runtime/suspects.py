"""What to do about messages that were in flight when the process died.

Each counts a crash and waits again. A message that met two crashes is a *suspect*: suspects run first, apart from
everything else, and at most half as many at once as were in flight at the last crash. So a message that kills the
process is alone in the end; only then is it blamed, and at five blames it is dead. No innocent one dies with it.

One whose turn has failed since then, and that waits for its next try, killed nothing when it ran: it keeps its count,
and nobody waits for it. Nor for one behind another of its conversation, which cannot run before that has ended: the
parts of an album, which the turn of the first takes along, or which run one by one where albums are no longer taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ..storage.commands import InboxMove
from ..storage.records import InboxRecord, InboxStatus
from .defaults import SUSPECT_CRASHES
from .inbox_rules import FoundAtStart, inbox_move
from .retry import rest_us


@attrs.frozen(kw_only=True)
class Recovery:
    """The decision at start.

    Attributes:
        moves: One transition for each row found claimed, by (shard, seq).
        suspects: The rows to run first and apart, as they stand after `moves`, by (shard, seq).
        at_once: How many of them may run at the same time, >= 1.
        turns: How many turns the crash met.
    """

    moves: tuple[InboxMove, ...]
    suspects: tuple[InboxRecord, ...]
    at_once: int
    turns: int

    @property
    def crash_looped(self) -> tuple[InboxRecord, ...]:
        """The rows that died of it (CRASH_LOOP)."""
        return tuple(move.after for move in self.moves if move.after.status is InboxStatus.DEAD)


def is_suspect(record: InboxRecord) -> bool:
    """Whether an open row met so many crashes that it may be their cause."""
    return record.crashes >= SUSPECT_CRASHES and record.status not in _ENDED


def runs_first(record: InboxRecord, now_us: int) -> bool:
    """Whether everything else waits for a row: for a suspect that can run now."""
    waits = record.status is InboxStatus.FAILED and rest_us(record.next_at_us, record.wait_us, now_us)
    return is_suspect(record) and not waits


def recover(
    found: Sequence[InboxRecord], *, waiting: Sequence[InboxRecord] = (), now_us: int, settled: int = 0
) -> Recovery:
    """Decide about the rows found claimed, of all shards together.

    Args:
        found: Every row stored as running: all that was in flight at the last crash.
        waiting: Open rows as stored; suspects of an earlier crash among them stay suspects. Rows of `found` may be
            among them.
        now_us: Wall clock, microseconds since 1970 UTC.
        settled: How many turns the crash met, where a start before this one was cut off while it counted them.
    Returns:
        The transitions to commit before anything else, and who runs first.
    Raises:
        BusError: INVALID_TRANSITION, a row of `found` is not running.
    """
    # The parts of an album run as one turn; apart from that a conversation has one row at work.
    turns = max(settled, len({record.conversation_key for record in found}))
    event = FoundAtStart(alone=turns == 1)
    moves = tuple(
        inbox_move(record, event, now_us=now_us, claim=record.claim) for record in sorted(found, key=_place)
    )
    stored = {record.id: record for record in waiting}
    after = stored | {move.after.id: move.after for move in moves}
    firsts: dict[str, InboxRecord] = {}
    for row in sorted(filter(is_suspect, after.values()), key=_place):
        firsts.setdefault(row.conversation_key, row)
    return Recovery(
        moves=moves,
        suspects=tuple(row for row in firsts.values() if runs_first(row, now_us)),
        at_once=max(1, turns // 2),
        turns=turns,
    )


_ENDED = frozenset(InboxStatus) - {InboxStatus.QUEUED, InboxStatus.RUNNING, InboxStatus.FAILED}


def _place(record: InboxRecord) -> tuple[int, int]:
    return record.shard, record.seq
