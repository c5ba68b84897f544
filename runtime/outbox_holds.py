"""Which sends wait behind one that nobody has settled, and what a decision about that one means for them.

A part is held while an earlier part of its text is uncertain or dead. That is seen in the rows as they are, and stored
nowhere: a restart finds the same. A channel may ask for more (`block_on_uncertain`): there an uncertain send holds all
that comes behind it in its conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..storage.commands import OutboxMove
from ..storage.records import OutboxRecord, OutboxState, StoredOutbox
from .outbox_rules import Cancel, Drop, OutboxEvent, ResolveDead, Unhold, event_word, outbox_move

if TYPE_CHECKING:
    from ..storage.port import Reader
    from .channel import ChannelCaps

_UNSETTLED = (OutboxState.UNCERTAIN, OutboxState.DEAD, OutboxState.PURGED)
_WAITING = (OutboxState.READY, OutboxState.FAILED)
_MAX_SEQ = 2**63 - 1
_DROPPED = event_word(Drop())


def is_held(record: OutboxRecord, reader: Reader) -> bool:
    """Whether an earlier part of its text is uncertain or dead; costs a read for parts behind the first alone."""
    if not record.part or record.state not in _WAITING:
        return False
    return reader.is_held(record.channel, record.idempotency_key, record.part)


def may_not_start(record: OutboxRecord, caps: ChannelCaps, reader: Reader) -> bool:
    """Whether the head of a lane is held by something that waits for a decision: it leaves memory until that came."""
    if is_held(record, reader):
        return True
    return caps.block_on_uncertain and reader.is_blocked(
        record.shard, record.conversation_key, record.seq, record.part
    )


def is_blocked(conversation_key: str, shard: int, caps: ChannelCaps, reader: Reader) -> bool:
    """Whether an uncertain send blocks all that comes new into a conversation; a read where the channel asks for it."""
    return caps.block_on_uncertain and reader.is_blocked(shard, conversation_key, _MAX_SEQ, 0)


def may_ride(head: OutboxRecord, after: OutboxRecord, caps: ChannelCaps) -> bool:
    """Whether a row may start in the commit that ends the one before it, as `after` says."""
    if head.channel != after.channel or head.state is not OutboxState.READY:
        return False
    if head.next_attempt_at_us is not None:
        return False
    if after.state is OutboxState.UNCERTAIN and caps.block_on_uncertain:
        return False
    # Whether a part is held only the store can tell, once this end is on disk.
    return not head.part or (after.state is OutboxState.SENT and is_later_part(head, after))


def is_later_part(record: OutboxRecord, of: OutboxRecord) -> bool:
    """Whether a send is a further part of the text that the other is a part of."""
    return (
        record.part > of.part
        and record.channel == of.channel
        and record.idempotency_key == of.idempotency_key
    )


def moves_of_decision(
    record: OutboxRecord, event: OutboxEvent, parts: Sequence[StoredOutbox], *, now_us: int
) -> tuple[OutboxMove, ...]:
    """The transitions that a decision about one send means, its own first; the further parts go with it.

    Sent, sent again or requeued: the parts that it alone held arrive anew behind it. Given up or taken back: they end
    dead with its code. Giving up a dead send, a purged one too, ends the parts that it holds.

    Args:
        record: The send decided about, as stored.
        event: The decision.
        parts: All parts of its text, by part.
        now_us: Wall clock, microseconds since 1970 UTC.
    Raises:
        BusError: as `outbox_move`.
    """
    later = [stored.record for stored in parts if is_later_part(stored.record, record)]
    if isinstance(event, ResolveDead) and record.state in (OutboxState.DEAD, OutboxState.PURGED):
        code = record.errors[-1].code if record.errors else event.code
        ended = _end(later, code, now_us)
        # Nothing to end: the decision is about the dead send itself, and refused.
        return ended or (outbox_move(record, event, now_us=now_us, claim=None),)
    own = outbox_move(record, event, now_us=now_us, claim=None)
    if isinstance(event, (ResolveDead, Cancel)):
        return (own, *_end(later, event.code, now_us))
    if record.state not in _UNSETTLED or own.after.state in _UNSETTLED:
        return (own,)
    if any(stored.record.part < record.part and stored.record.state in _UNSETTLED for stored in parts):
        return (own,)
    moves = [own]
    for part in later:
        if part.state in _UNSETTLED:
            break
        if part.state is OutboxState.READY:
            moves.append(outbox_move(part, Unhold(), now_us=now_us, claim=None))
    return tuple(moves)


def moves_of_drop(dropped: OutboxMove, reader: Reader, *, now_us: int) -> tuple[OutboxMove, ...]:
    """What the policy's giving up of a send means for the further parts of its text."""
    record = dropped.after
    parts = reader.text_parts(record.channel, record.idempotency_key)
    later = [stored.record for stored in parts if is_later_part(stored.record, record)]
    return _end(later, dropped.code or record.errors[-1].code, now_us)


def is_drop(move: OutboxMove) -> bool:
    """Whether the policy gave the send up."""
    return move.event == _DROPPED


def _end(parts: Sequence[OutboxRecord], code: str, now_us: int) -> tuple[OutboxMove, ...]:
    event = Cancel(code, "an earlier part of its text was given up")
    return tuple(
        outbox_move(part, event, now_us=now_us, claim=None) for part in parts if part.state in _WAITING
    )


__all__ = [
    "is_blocked",
    "is_drop",
    "is_held",
    "is_later_part",
    "may_not_start",
    "may_ride",
    "moves_of_decision",
    "moves_of_drop",
]
