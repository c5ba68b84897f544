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
from .chain import ANCHOR_ROWS, Linker
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
    said,
)
from .numbers import Numbers
from .plan import Plan, Transition, check_home
from .purge import plan_purge
from .rows import (
    control_row,
    fact_row,
    inbox_move,
    inbox_row,
    outbox_move,
    outbox_rewrite,
    outbox_row,
    state_row,
)
from .steps import plan_in_turn
from .text_seqs import TextSeqs
from .timers import shard_of_timer, timer_step

_ACCEPT_WORDS: Final = {
    InboxStatus.RUNNING: "accept+claim",
    InboxStatus.REFUSED: "refuse",
    InboxStatus.PARKED: "park",
}


# Most are running before or after: a tuple is searched by identity.
_OPEN: Final = (InboxStatus.RUNNING, InboxStatus.QUEUED, InboxStatus.FAILED)


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
        "_link",
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
        # The same for rows of this batch.
        self._inbox: dict[str, FirstInbox] = {}
        self._events: dict[str, FirstEvent] = {}
        self._outbox: dict[Identity, FirstOutbox] = {}
        self._link = linker.link
        self._transitions: list[Transition] = []

    def add(self, part: Part) -> Outcome:
        """Plan one part.

        Returns:
            Its outcome, valid once the transaction is on disk; a `Refused` part adds nothing.
        Raises:
            BusError: the part cannot be stored. `plan` and `numbers` are of no use any more.
            UnknownPlaceError: a partition's end must be read first. The same.
        """
        if isinstance(part, Publish):
            return self._publish(part)
        if isinstance(part, Commit):
            return self._commit(part)
        numbers = self.numbers
        epoch = numbers.epochs[part.shard] = numbers.epochs[part.shard] + 1
        self.plan.shards.add(part.shard)
        return Leased(part.shard, epoch)

    def finish(self) -> None:
        """Chain a history row for every transition that was planned, in order."""
        numbers, plan, link, instance = self.numbers, self.plan, self._link, self._instance
        hseqs, heads, history = numbers.hseqs, numbers.heads, plan.history
        for shard, kind, identity, before, after, event, claim, at_us, code in self._transitions:
            hseqs[shard] = hseq = hseqs[shard] + 1
            columns = (shard, hseq, kind, identity, before, after, event, claim, at_us, code, instance)
            heads[shard] = h = link(heads[shard], columns)
            history.append((*columns, h))
            plan.shards.add(shard)
            if hseq % ANCHOR_ROWS == 0:
                plan.anchors.append((shard, hseq, h, at_us))

    def _publish(self, part: Publish) -> Outcome:
        row = part.row
        claim = part.claim
        claimed = False
        if claim is not None and isinstance(row, NewInbox | NewOutbox):
            claimed = claim.shard == row.record.shard and claim.epoch == self.numbers.epochs[claim.shard]
        outcome = self._new_row(row, part.at_us, claimed, part.relayed)
        # Also beside a duplicate: its message is on disk, so the edge's position may move on.
        for fact in part.facts:
            self.plan.facts[fact.namespace, fact.key] = fact_row(fact, part.at_us)
        return outcome

    def _commit(self, part: Commit) -> Outcome:
        shard = part.shard
        epoch = self.numbers.epochs[shard]
        if epoch != part.epoch:
            return Refused(
                BusError(Code.FENCED, f"lease {part.epoch} of shard {shard} ended", shard=shard, epoch=epoch)
            )
        at_us = part.at_us
        tails: list[tuple[int, int]] = []
        dropped: list[int] = []
        for move in part.inbox:
            if move.event == "claim" and move.after.id in self._known.missing:
                dropped.append(move.after.id)
            else:
                self._move_inbox(move, shard, at_us, tails)
        if part.outbox:
            self._move_outbox(part.outbox, shard, at_us, tails)
        for rewrite in part.rewrites:
            self._move_outbox((rewrite.move,), shard, at_us, tails)
            self.plan.outbox_rewrites.append(outbox_rewrite(rewrite))
        if part.turn is not None:
            plan_in_turn(part.turn, shard, at_us, self.plan)
        for state in part.state:
            self.plan.states[state.conversation_key] = state_row(state, shard, at_us)
        sends = self._sends(part.new_outbox, shard, at_us) if part.new_outbox else ()
        emits = self._emit(part) if part.emits else ()
        for number in part.relayed:
            self.plan.relayed.append((number.shard, number.seq, number.index))
        for fact in part.facts:
            self.plan.facts[fact.namespace, fact.key] = fact_row(fact, at_us)
        for purge in part.purges:
            self._transitions.append(plan_purge(purge, shard, at_us, self.plan, self.numbers))
        if part.control is not None:
            self.plan.controls.append(control_row(part.control, at_us, self._instance))
        for write in part.timers:
            self.plan.timers.append(timer_step(write, shard))
        if part.prune is not None:
            self.plan.prunes.append((part.prune, self.numbers.change_seq, at_us))
            self.numbers.change_seq += len(part.prune.emptied)
        arrivals = self._arrive(part) if part.arrivals else ()
        return Committed(sends, emits, tuple(tails), tuple(dropped), arrivals)

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
        first = self._inbox.get(key) or self._known.inbox.get(key)
        if first is not None:
            return Duplicate(*first[:3], is_other_message(first[3], message))
        numbers = self.numbers
        offset = numbers.take_offset((record.topic, record.partition))
        seq = self._next_seq(record.shard)
        numbers.change_seq = change = numbers.change_seq + 1
        status = record.status
        claim = record.claim
        epoch = record.epoch
        started_us = record.started_at_us
        if status is InboxStatus.QUEUED or status is InboxStatus.RUNNING:
            if claimed:
                status, claim, epoch, started_us = InboxStatus.RUNNING, 1, self._instance, at_us
            else:
                status, claim = InboxStatus.QUEUED, 0
        claimed = status is InboxStatus.RUNNING
        numbers.open_messages += status in _OPEN
        self.plan.inbox.append(
            inbox_row(
                record,
                message,
                seq=seq,
                offset=offset,
                status=status,
                claim=claim,
                epoch=epoch,
                started_at_us=started_us,
                change_seq=change,
                dedupe_key=key,
            )
        )
        numbers.next_inbox_id = max(numbers.next_inbox_id, record.id + 1)
        code = record.errors[-1].code if record.errors else None
        word = _ACCEPT_WORDS.get(status, "accept")
        self._transitions.append((record.shard, "in", record.id, "", status, word, claim, at_us, code))
        self._inbox[key] = (record.id, record.partition, offset, message)
        return Stored(record.id, seq, offset, claimed)

    def _append(self, new: NewEvent, at_us: int, key: str | None) -> Stored | Duplicate:
        event = new.event
        if key is not None:
            first = self._events.get(key) or self._known.events.get(key)
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
        first = self._outbox.get(identity) or self._known.outbox.get(identity)
        if first is not None:
            check_same_send(first, record, content)
            return Duplicate(*first[:3], conflict=False)
        numbers = self.numbers
        numbers.change_seq = change = numbers.change_seq + 1
        claim, attempts, last_us = record.claim, record.attempts, record.last_attempt_at_us
        state = record.state
        waiting = state is OutboxState.READY or state is OutboxState.FLYING
        started = started and waiting
        if started:
            # A first start that rides along is claim 1, whether the record counts it yet or not.
            claim, attempts, last_us = 1, 1, at_us
            state = OutboxState.FLYING
        elif waiting:
            claim, attempts, last_us = 0, 0, None
            state = OutboxState.READY
        self.plan.outbox.append(
            outbox_row(
                record,
                content,
                seq=seq,
                in_flight=started,
                claim=claim,
                attempts=attempts,
                last_attempt_at_us=last_us,
                change_seq=change,
            )
        )
        numbers.next_outbox_id = max(numbers.next_outbox_id, record.id + 1)
        code = record.errors[-1].code if record.errors else None
        word = "enqueue+start" if started else "enqueue"
        self._transitions.append((record.shard, "out", record.id, "", state, word, claim, at_us, code))
        self._outbox[identity] = (record.id, record.shard, seq, record.conversation_key, said(content))
        return Stored(record.id, seq, seq, started)

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

    def _move_inbox(self, move: InboxMove, shard: int, at_us: int, tails: list[tuple[int, int]]) -> None:
        before = move.before
        after = move.after
        check_home(after.id, before.shard, shard)
        numbers = self.numbers
        numbers.change_seq = change = numbers.change_seq + 1
        if move.to_tail:
            seq = self._next_seq(shard)
            tails.append((after.id, seq))
            self.plan.inbox_tails.append(inbox_move(before, after, change, seq))
        else:
            self.plan.inbox_moves.append(inbox_move(before, after, change, None))
        numbers.open_messages += (after.status in _OPEN) - (before.status in _OPEN)
        if move.event == "fail":
            numbers.retried_turns += 1
        self._transitions.append(
            (shard, "in", after.id, before.status, after.status, move.event, after.claim, at_us, move.code)
        )

    def _move_outbox(
        self, moves: tuple[OutboxMove, ...], shard: int, at_us: int, tails: list[tuple[int, int]]
    ) -> None:
        numbers = self.numbers
        seqs = TextSeqs(self._next_seq)
        for move in moves:
            before = move.before
            after = move.after
            check_home(after.id, before.shard, shard)
            numbers.change_seq = change = numbers.change_seq + 1
            if move.to_tail:
                seq = seqs.of(after)
                tails.append((after.id, seq))
                self.plan.outbox_tails.append(outbox_move(before, after, change, seq))
            else:
                self.plan.outbox_moves.append(outbox_move(before, after, change, None))
            if move.event == "failed":
                numbers.retried_sends += 1
            self._transitions.append(
                (shard, "out", after.id, before.state, after.state, move.event, after.claim, at_us, move.code)
            )

    def _next_seq(self, shard: int) -> int:
        seqs = self.numbers.seqs
        seqs[shard] = seq = seqs[shard] + 1
        return seq
