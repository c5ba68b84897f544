"""The rows that a transaction adds: messages, events, sends."""

from __future__ import annotations

from typing import Final

from ...actors.codec import CODEC_VERSION, pack_event
from ..commands import (
    DropTimer,
    Duplicate,
    EmitNumber,
    NewEvent,
    NewInbox,
    NewOutbox,
    NewRow,
    NewTimer,
    Stored,
)
from ..records import InboxStatus, OutboxState, OutboxStatus
from .known import (
    FirstEvent,
    FirstInbox,
    FirstOutbox,
    Identity,
    Known,
    check_same_send,
    emit_key,
    is_other_event,
    is_other_message,
)
from .numbers import Numbers
from .plan import Plan, Transition, check_home
from .rows import inbox_row, new_inbox_row, new_outbox_row, outbox_row
from .text_seqs import TextSeqs
from .timers import shard_of_timer, timer_step

# The members that each message meets: a look-up in the enum costs as much as ten steps on Python 3.11.
_QUEUED: Final = InboxStatus.QUEUED
_RUNNING: Final = InboxStatus.RUNNING
_PENDING: Final = OutboxStatus.PENDING
_READY: Final = OutboxState.READY
_FLYING: Final = OutboxState.FLYING

_ACCEPT_WORDS: Final = {
    InboxStatus.QUEUED: "accept",
    InboxStatus.RUNNING: "accept+claim",
    InboxStatus.REFUSED: "refuse",
    InboxStatus.PARKED: "park",
}
_ACCEPT: Final = _ACCEPT_WORDS[InboxStatus.QUEUED]
_ACCEPT_CLAIM: Final = _ACCEPT_WORDS[InboxStatus.RUNNING]

# Most are running before or after: a tuple is searched by identity.
OPEN: Final = (_RUNNING, _QUEUED, InboxStatus.FAILED)
"""Where a message is that is still to be handled."""


class NewRows:
    """Plans new rows one after the other.

    Args:
        numbers: Drawn from, in place.
        instance: Number of this opening, for claims and history.
        known: What a look-up found.
    """

    __slots__ = ("_events", "_inbox", "_instance", "_outbox", "_transitions", "numbers", "plan")

    def __init__(self, numbers: Numbers, *, instance: int, known: Known) -> None:
        self.numbers = numbers
        self.plan = Plan()
        self._instance = instance
        # What stands under a key, on disk or by a row of this batch.
        self._inbox: dict[str, FirstInbox] = dict(known.inbox)
        self._events: dict[str, FirstEvent] = dict(known.events)
        self._outbox: dict[Identity, FirstOutbox] = dict(known.outbox)
        self._transitions: list[Transition] = []

    def _new_row(
        self, row: NewRow, at_us: int, claimed: bool, number: EmitNumber | None
    ) -> Stored | Duplicate:
        if isinstance(row, NewInbox):
            return self._accept(row, at_us, claimed, row.dedupe_key if number is None else emit_key(number))
        if isinstance(row, NewOutbox):
            return self._send(row, at_us, claimed, self._next_seq(row.record.shard))
        if isinstance(row, NewTimer | DropTimer):
            self.plan.timers.append(timer_step(row, shard_of_timer(row)))
            return Stored(0, 0, 0, claimed=False)
        return self._append(row, at_us, row.dedupe_key or (None if number is None else emit_key(number)))

    def _accept(self, new: NewInbox, at_us: int, claimed: bool, key: str) -> Stored | Duplicate:
        record = new.record
        message = new.message
        first = self._inbox.get(key)
        if first is not None:
            return Duplicate(*first[:3], is_other_message(first[3], message))
        numbers = self.numbers
        shard = record.shard
        offset = numbers.take_offset((record.topic, record.partition))
        seqs = numbers.seqs
        seqs[shard] = seq = seqs[shard] + 1
        numbers.change_seq = change = numbers.change_seq + 1
        status, claim, code = record.status, record.claim, None
        if (status is _QUEUED or status is _RUNNING) and not record.errors:
            epoch, started_us = record.epoch, record.started_at_us
            if claimed:
                status, claim, epoch, started_us, word = _RUNNING, 1, self._instance, at_us, _ACCEPT_CLAIM
            else:
                status, claim, word = _QUEUED, 0, _ACCEPT
            numbers.open_messages += 1
            self.plan.new_inbox.append(
                new_inbox_row(record, message, seq, offset, status, claim, epoch, started_us, change, key)
            )
        else:
            claimed = False
            code = record.errors[-1].code if record.errors else None
            word = _ACCEPT_WORDS.get(status, _ACCEPT)
            numbers.open_messages += status in OPEN
            self.plan.inbox.append(inbox_row(record, message, seq, offset, change, key))
        row_id = record.id
        if row_id >= numbers.next_inbox_id:
            numbers.next_inbox_id = row_id + 1
        self._transitions.append(
            (shard, ("in", row_id, "", status, word, claim, at_us, code, self._instance))
        )
        self._inbox[key] = (row_id, record.partition, offset, message)
        return Stored(row_id, seq, offset, claimed)

    def _append(self, new: NewEvent, at_us: int, key: str | None) -> Stored | Duplicate:
        event = new.event
        if key is not None:
            first = self._events.get(key)
            if first is not None:
                return Duplicate(*first[:3], is_other_event(first[3], event))
        numbers = self.numbers
        offset, ts_us = numbers.take_event((event.topic, new.partition), at_us)
        self.plan.events.append(
            (
                new.id, new.shard, event.topic, new.partition, offset, ts_us, event.key, key, CODEC_VERSION,
                pack_event(event),
            )
        )  # fmt: skip
        numbers.next_event_id = max(numbers.next_event_id, new.id + 1)
        if key is not None:
            self._events[key] = (new.id, new.partition, offset, event)
        return Stored(new.id, 0, offset, claimed=False)

    def _sends(self, sends: tuple[NewOutbox, ...], shard: int, at_us: int) -> tuple[Stored | Duplicate, ...]:
        """The new sends of a Commit; a piece of a part has the seq of its text already."""
        if len(sends) == 1:
            (new,) = sends
            record = new.record
            if record.shard != shard:
                check_home(record.id, record.shard, shard)
            return (self._send(new, at_us, record.in_flight, record.seq or self._next_seq(shard)),)
        seqs = TextSeqs(self._next_seq)
        outcomes: list[Stored | Duplicate] = []
        for new in sends:
            record = new.record
            check_home(record.id, record.shard, shard)
            outcomes.append(self._send(new, at_us, record.in_flight, record.seq or seqs.of(record)))
        return tuple(outcomes)

    def _send(self, new: NewOutbox, at_us: int, started: bool, seq: int) -> Stored | Duplicate:
        record = new.record
        content = new.content
        identity = (record.channel, record.idempotency_key, record.part)
        first = self._outbox.get(identity)
        if first is not None:
            check_same_send(first, record, content)
            return Duplicate(*first[:3], conflict=False)
        numbers = self.numbers
        numbers.change_seq = change = numbers.change_seq + 1
        row_id = record.id
        shard = record.shard
        code = None
        if record.status is _PENDING and record.uncertain_since_us is None and not record.errors:
            if started:
                state, claim, word, started_us = _FLYING, 1, "enqueue+start", at_us
            else:
                state, claim, word, started_us = _READY, 0, "enqueue", None
            self.plan.new_outbox.append(new_outbox_row(record, content, seq, started_us, change))
        else:
            started = False
            state, claim, word = record.state, record.claim, "enqueue"
            code = record.errors[-1].code if record.errors else None
            self.plan.outbox.append(outbox_row(record, content, seq, change))
        if row_id >= numbers.next_outbox_id:
            numbers.next_outbox_id = row_id + 1
        self._transitions.append(
            (shard, ("out", row_id, "", state, word, claim, at_us, code, self._instance))
        )
        self._outbox[identity] = (row_id, shard, seq, record.conversation_key, content)
        return Stored(row_id, seq, seq, started)

    def _next_seq(self, shard: int) -> int:
        seqs = self.numbers.seqs
        seqs[shard] = seq = seqs[shard] + 1
        return seq
