"""What one transaction writes, decided without touching the database.

A `Planner` takes parts in the order they were submitted, draws their numbers, and sorts their rows by kind. The
order of kinds inside the transaction is fixed (`Plan`), so a row may be inserted and moved by two parts of one batch.
Whether a move meets the row it names is for the database to say: the count of changed rows must be exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...actors.errors import BusError, Code
from ..commands import (
    Commit,
    Committed,
    Duplicate,
    InboxMove,
    Leased,
    NewInbox,
    NewOutbox,
    OutboxMove,
    Outcome,
    Part,
    Publish,
    Refused,
    Stored,
)
from .chain import Linker
from .emits import pack_emit
from .known import Known
from .new_rows import OPEN, NewRows
from .numbers import Numbers
from .plan import check_home
from .purge import plan_purge
from .rows import (
    INBOX_GUARDS,
    OUTBOX_GUARDS,
    control_row,
    fact_row,
    inbox_move,
    outbox_move,
    outbox_rewrite,
    state_row,
    with_errors,
)
from .steps import plan_in_turn
from .text_seqs import TextSeqs
from .timers import timer_step

_CLAIMABLE: Final = (NewInbox, NewOutbox)

_NOTHING_NEW: Final = Committed()
"""What most Commits come to: one for all of them."""


class Planner(NewRows):
    """Plans parts one after the other; after `finish`, `plan` and `numbers` hold what they add up to.

    Args:
        numbers: Drawn from, in place.
        instance: Number of this opening, for claims and history.
        atomic: Emits become rows of their homes at once; else they wait in `emit` for a relay.
        known: What a look-up found.
        linker: The writer's own.
    """

    __slots__ = ("_atomic", "_known", "_linker")

    def __init__(
        self, numbers: Numbers, *, instance: int, atomic: bool, known: Known, linker: Linker
    ) -> None:
        super().__init__(numbers, instance=instance, known=known)
        self._atomic = atomic
        self._known = known
        self._linker = linker

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
        row, claim, epochs = part.row, part.claim, self.numbers.epochs
        if isinstance(row, NewInbox) and part.relayed is None:
            claimed = (
                claim is not None and claim.epoch == epochs[claim.shard] and claim.shard == row.record.shard
            )
            outcome = self._accept(row, part.at_us, claimed, row.dedupe_key)
        else:
            claimed = (
                claim is not None
                and isinstance(row, _CLAIMABLE)
                and claim.epoch == epochs[claim.shard]
                and claim.shard == row.record.shard
            )
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
            numbers.open_messages += (status in OPEN) - (was in OPEN)
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
            said = (
                "out",
                row_id,
                before.state,
                after.state,
                word,
                after.claim,
                at_us,
                move.code,
                self._instance,
            )
            self._transitions.append((shard, said))
