"""What one transaction writes, decided without touching the database.

A `Planner` takes parts in the order they were submitted, draws their numbers, and sorts their rows by kind. The
order of kinds inside the transaction is fixed (`Plan`), so a row may be inserted and moved by two parts of one batch.
Whether a move meets the row it names is for the database to say: the count of changed rows must be exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...actors.codec import CODEC_VERSION, pack_event
from ...actors.errors import BusError, Code
from ..commands import (
    Commit,
    Committed,
    DropTimer,
    Duplicate,
    EmitNumber,
    InboxMove,
    Leased,
    NewEvent,
    NewInbox,
    NewOutbox,
    NewRow,
    NewTimer,
    OutboxMove,
    Outcome,
    Part,
    Publish,
    Refused,
    Stored,
)
from ..records import InboxStatus, OutboxState
from .chain import Linker
from .emits import pack_emit
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
from .purge import plan_purge
from .rows import (
    INBOX_GUARDS,
    OUTBOX_GUARDS,
    control_row,
    fact_row,
    inbox_move,
    inbox_row,
    new_inbox_row,
    new_outbox_row,
    outbox_move,
    outbox_rewrite,
    outbox_row,
    state_row,
    with_errors,
)
from .steps import plan_in_turn
from .text_seqs import TextSeqs
from .timers import shard_of_timer, timer_step

# The members that are met by each message: a look-up in the enum costs as much as ten steps on Python 3.11.
_QUEUED: Final = InboxStatus.QUEUED
_RUNNING: Final = InboxStatus.RUNNING
_READY: Final = OutboxState.READY
_FLYING: Final = OutboxState.FLYING

_ACCEPT_WORDS: Final = {
    _RUNNING: "accept+claim",
    InboxStatus.REFUSED: "refuse",
    InboxStatus.PARKED: "park",
}

# Most are running before or after: a tuple is searched by identity.
_OPEN: Final = (_RUNNING, _QUEUED, InboxStatus.FAILED)
_CLAIMABLE: Final = (NewInbox, NewOutbox)

_NOTHING_NEW: Final = Committed()


class Planner:
    """Plans parts one after the other; after `finish`, `plan` and `numbers` hold what they add up to.

    Args:
        numbers: Drawn from, in place.
        instance: Number of this opening, for claims and history.
        atomic: Emits become rows of their homes at once; else they wait in `emit` for a relay.
        known: What a look-up found.
        linker: The writer's own.
    """

    __slots__ = (
        "_atomic",
        "_events",
        "_inbox",
        "_instance",
        "_known",
        "_linker",
        "_outbox",
        "_transitions",
        "numbers",
        "plan",
    )

    def __init__(
        self, numbers: Numbers, *, instance: int, atomic: bool, known: Known, linker: Linker
    ) -> None:
        self.numbers = numbers
        self.plan = Plan()
        self._instance = instance
        self._atomic = atomic
        self._known = known
        # What stands under a key, on disk or by a row of this batch.
        self._inbox: dict[str, FirstInbox] = dict(known.inbox)
        self._events: dict[str, FirstEvent] = dict(known.events)
        self._outbox: dict[Identity, FirstOutbox] = dict(known.outbox)
        self._linker = linker
        self._transitions: list[Transition] = []

    def add(self, part: Part) -> Outcome:
        """Plan one part.

        Returns:
            Its outcome, valid once the transaction is on disk; a `Refused` part adds nothing.
        Raises:
            BusError: the part cannot be stored. `plan` and `numbers` are of no use any more.
            UnknownPlaceError: a partition's end must be read first. The same.
        """
        if isinstance(part, Commit):
            return self._commit(part)
        if isinstance(part, Publish):
            return self._publish(part)
        numbers = self.numbers
        epoch = numbers.epochs[part.shard] = numbers.epochs[part.shard] + 1
        self.plan.shards.add(part.shard)
        return Leased(part.shard, epoch)

    def finish(self) -> None:
        """Chain a history row for every transition that was planned, in order."""
        self._linker.chain(self._transitions, self.numbers, self.plan)

    def _publish(self, part: Publish) -> Outcome:
        row = part.row
        claim = part.claim
        claimed = (
            claim is not None
            and isinstance(row, _CLAIMABLE)
            and claim.shard == row.record.shard
            and claim.epoch == self.numbers.epochs[claim.shard]
        )
        if isinstance(row, NewInbox) and part.relayed is None:
            outcome = self._accept(row, part.at_us, claimed, row.dedupe_key)
        else:
            outcome = self._new_row(row, part.at_us, claimed, part.relayed)
        # Also beside a duplicate: its message is on disk, so the edge's position may move on.
        for fact in part.facts:
            self.plan.facts[fact.namespace, fact.key] = fact_row(fact, part.at_us)
        return outcome

    def _commit(self, part: Commit) -> Outcome:
        shard = part.shard
        if self.numbers.epochs[shard] != part.epoch:
            return self._fenced(part)
        at_us = part.at_us
        tails: list[tuple[int, int]] = []
        dropped: list[int] = []
        if part.inbox:
            self._move_inbox(part.inbox, shard, at_us, tails, dropped)
        if part.outbox:
            self._move_outbox(part.outbox, shard, at_us, tails)
        for rewrite in part.rewrites:
            self._move_outbox((rewrite.move,), shard, at_us, tails)
            self.plan.outbox_rewrites.append(outbox_rewrite(rewrite))
        for state in part.state:
            self.plan.states[state.conversation_key] = state_row(state, shard, at_us)
        sends = self._sends(part.new_outbox, shard, at_us) if part.new_outbox else ()
        emits = self._emit(part) if part.emits else ()
        if (
            part.relayed
            or part.facts
            or part.purges
            or part.control is not None
            or part.turn is not None
            or part.timers
            or part.prune is not None
        ):
            self._add_rest(part)
        arrivals = self._arrive(part) if part.arrivals else ()
        if tails or dropped or emits or arrivals:
            return Committed(sends, emits, tuple(tails), tuple(dropped), arrivals)
        return Committed(sends) if sends else _NOTHING_NEW

    def _fenced(self, part: Commit) -> Refused:
        epoch = self.numbers.epochs[part.shard]
        text = f"lease {part.epoch} of shard {part.shard} ended"
        return Refused(BusError(Code.FENCED, text, shard=part.shard, epoch=epoch))

    def _add_rest(self, part: Commit) -> None:
        """What few Commits carry."""
        shard, at_us, plan, numbers = part.shard, part.at_us, self.plan, self.numbers
        if part.turn is not None:
            plan_in_turn(part.turn, shard, at_us, plan)
        for number in part.relayed:
            plan.relayed.append((number.shard, number.seq, number.index))
        for fact in part.facts:
            plan.facts[fact.namespace, fact.key] = fact_row(fact, at_us)
        for purge in part.purges:
            self._transitions.append(plan_purge(purge, shard, at_us, self._instance, plan, numbers))
        if part.control is not None:
            plan.controls.append(control_row(part.control, at_us, self._instance))
        for write in part.timers:
            plan.timers.append(timer_step(write, shard))
        if part.prune is not None:
            plan.prunes.append((part.prune, numbers.change_seq, at_us))
            numbers.change_seq += len(part.prune.emptied)

    def _arrive(self, part: Commit) -> tuple[Stored | Duplicate, ...]:
        for row in part.arrivals:
            new = row.record if isinstance(row, NewInbox) else row
            check_home(new.id, new.shard, part.shard)
        return tuple(self._new_row(row, part.at_us, False, None) for row in part.arrivals)

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
        seq = self._next_seq(shard)
        numbers.change_seq = change = numbers.change_seq + 1
        status, claim, code = record.status, record.claim, None
        if (status is _QUEUED or status is _RUNNING) and not record.errors:
            epoch, started_us = record.epoch, record.started_at_us
            if claimed:
                status, claim, epoch, started_us = _RUNNING, 1, self._instance, at_us
            else:
                status, claim = _QUEUED, 0
            self.plan.new_inbox.append(
                new_inbox_row(record, message, seq, offset, status, claim, epoch, started_us, change, key)
            )
        else:
            claimed = False
            code = record.errors[-1].code if record.errors else None
            self.plan.inbox.append(inbox_row(record, message, seq, offset, change, key))
        numbers.open_messages += status in _OPEN
        row_id = record.id
        if row_id >= numbers.next_inbox_id:
            numbers.next_inbox_id = row_id + 1
        word = _ACCEPT_WORDS.get(status, "accept")
        self._transitions.append((shard, ("in", row_id, "", status, word, claim, at_us, code, self._instance)))
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
        for new in sends:
            if new.record.shard != shard:
                check_home(new.record.id, new.record.shard, shard)
        if len(sends) == 1:
            (new,) = sends
            seq = new.record.seq or self._next_seq(shard)
            return (self._send(new, at_us, new.record.in_flight, seq),)
        seqs = TextSeqs(self._next_seq)
        return tuple(
            self._send(new, at_us, new.record.in_flight, new.record.seq or seqs.of(new.record)) for new in sends
        )

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
        state, claim, code = record.state, record.claim, None
        if (state is _READY or state is _FLYING) and not record.errors:
            state, claim = (_FLYING, 1) if started else (_READY, 0)
            started_us = at_us if started else None
            self.plan.new_outbox.append(new_outbox_row(record, content, seq, started_us, change))
        else:
            started = False
            code = record.errors[-1].code if record.errors else None
            self.plan.outbox.append(outbox_row(record, content, seq, change))
        if row_id >= numbers.next_outbox_id:
            numbers.next_outbox_id = row_id + 1
        word = "enqueue+start" if started else "enqueue"
        self._transitions.append((shard, ("out", row_id, "", state, word, claim, at_us, code, self._instance)))
        self._outbox[identity] = (row_id, shard, seq, record.conversation_key, content)
        return Stored(row_id, seq, seq, started)

    def _emit(self, part: Commit) -> tuple[Stored | Duplicate, ...]:
        if self._atomic:
            return tuple(self._arrivals(part))
        for emit in part.emits:
            self.numbers.reserve_id(emit.row)
            self.plan.emits.append(pack_emit(emit, part.at_us))
        return ()

    def _arrivals(self, part: Commit) -> Iterator[Stored | Duplicate]:
        seqs = TextSeqs(self._next_seq)
        for emit in part.emits:
            row = emit.row
            if isinstance(row, NewOutbox):
                yield self._send(row, part.at_us, False, seqs.of(row.record))
            else:
                yield self._new_row(row, part.at_us, False, emit.number)

    def _move_inbox(
        self,
        moves: tuple[InboxMove, ...],
        shard: int,
        at_us: int,
        tails: list[tuple[int, int]],
        dropped: list[int],
    ) -> None:
        numbers, plan, missing = self.numbers, self.plan, self._known.missing
        for move in moves:
            before = move.before
            after = move.after
            row_id = after.id
            if missing and move.event == "claim" and row_id in missing:
                dropped.append(row_id)
                continue
            if before.shard != shard:
                check_home(row_id, before.shard, shard)
            numbers.change_seq = change = numbers.change_seq + 1
            row = inbox_move(before, after, change)
            if move.to_tail:
                seq = self._next_seq(shard)
                tails.append((row_id, seq))
                plan.inbox_tails.append(with_errors(row, INBOX_GUARDS, after.errors, seq))
            elif after.errors:
                plan.failed_inbox_moves.append(with_errors(row, INBOX_GUARDS, after.errors))
            else:
                plan.inbox_moves.append(row)
            was, status, word = before.status, after.status, move.event
            numbers.open_messages += (status in _OPEN) - (was in _OPEN)
            if word == "fail":
                numbers.retried_turns += 1
            self._transitions.append(
                (shard, ("in", row_id, was, status, word, after.claim, at_us, move.code, self._instance))
            )

    def _move_outbox(
        self, moves: tuple[OutboxMove, ...], shard: int, at_us: int, tails: list[tuple[int, int]]
    ) -> None:
        numbers, plan = self.numbers, self.plan
        seqs: TextSeqs | None = None
        for move in moves:
            before = move.before
            after = move.after
            row_id = after.id
            if before.shard != shard:
                check_home(row_id, before.shard, shard)
            numbers.change_seq = change = numbers.change_seq + 1
            row = outbox_move(before, after, change)
            if move.to_tail:
                seqs = seqs or TextSeqs(self._next_seq)
                seq = seqs.of(after)
                tails.append((row_id, seq))
                plan.outbox_tails.append(with_errors(row, OUTBOX_GUARDS, after.errors, seq))
            elif after.errors:
                plan.failed_outbox_moves.append(with_errors(row, OUTBOX_GUARDS, after.errors))
            else:
                plan.outbox_moves.append(row)
            word = move.event
            if word == "failed":
                numbers.retried_sends += 1
            said = ("out", row_id, before.state, after.state, word, after.claim, at_us, move.code, self._instance)
            self._transitions.append((shard, said))

    def _next_seq(self, shard: int) -> int:
        seqs = self.numbers.seqs
        seqs[shard] = seq = seqs[shard] + 1
        return seq
