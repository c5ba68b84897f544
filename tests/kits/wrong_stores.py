"""Stores that are wrong in one thing."""

from __future__ import annotations

from itertools import count

import attrs

from shardline.actors.errors import BusError, Code
from shardline.storage.commands import (
    Commit,
    Committed,
    Duplicate,
    Fact,
    InboxMove,
    NewEvent,
    NewInbox,
    NewOutbox,
    OutboxMove,
    Outcome,
    Part,
    Publish,
    Refused,
    Stored,
    TakeLease,
)
from shardline.storage.journal import Journal
from shardline.storage.port import Caps, HistoryRow, Settle
from shardline.storage.records import StoredOutbox
from tests.kits.memory_mutants import MEMORY, WallStore, Wrong

STORES = Wrong()

_STATE_BYTES = 256 * 1024
_FACT_BYTES = 64 * 1024

# Order and repeats.


@STORES.caught_by("order_of_submission_is_the_order_of_seq_and_offset")
class OneSeqForAllShards(WallStore):
    def __init__(self, store: Journal) -> None:
        super().__init__(store)
        self.seqs = count(1)

    def outcome(self, part: Part, outcome: Outcome) -> Outcome:
        return attrs.evolve(outcome, seq=next(self.seqs)) if isinstance(outcome, Stored) else outcome


@STORES.caught_by("inbox_and_outbox_draw_seq_from_one_counter")
class OutboxCountsForItself(WallStore):
    def read_outbox(self, row_id: int) -> StoredOutbox | None:
        stored = self.real.outbox(row_id)
        return stored and attrs.evolve(stored, record=attrs.evolve(stored.record, seq=1))


@STORES.caught_by(
    "repeat_gives_the_first_place_and_takes_no_offset",
    "repeats_inside_one_batch_are_stored_once",
    "repeat_with_another_content_is_a_conflict",
    "claim_of_a_duplicate_is_dropped_and_the_rest_is_stored",
    "repeated_send_is_a_duplicate",
    "identity_used_for_another_text_refuses_the_whole_commit",
    "identity_used_for_another_conversation_refuses_the_whole_commit",
    "repeated_event_is_stored_once",
)
class NeverDedupes(WallStore):
    def __init__(self, store: Journal) -> None:
        super().__init__(store)
        self.numbers = count()

    def part(self, part: Part) -> Part:
        match part:
            case Publish(row=NewInbox() as row):
                return attrs.evolve(
                    part, row=attrs.evolve(row, dedupe_key=f"{row.dedupe_key}/{next(self.numbers)}")
                )
            case Publish(row=NewEvent() as row):
                return attrs.evolve(part, row=attrs.evolve(row, dedupe_key=None))
            case Commit(new_outbox=rows):
                return attrs.evolve(part, new_outbox=tuple(self._renamed(row) for row in rows))
            case _:
                return part

    def _renamed(self, row: NewOutbox) -> NewOutbox:
        key = f"{row.record.idempotency_key}/{next(self.numbers)}"
        return attrs.evolve(row, record=attrs.evolve(row.record, idempotency_key=key))


@STORES.caught_by(
    "repeat_gives_the_first_place_and_takes_no_offset", "repeats_inside_one_batch_are_stored_once"
)
class PlaceOfTheRepeat(WallStore):
    def outcome(self, part: Part, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Duplicate):
            return attrs.evolve(outcome, offset=outcome.offset + 1)
        return outcome


@STORES.caught_by("repeat_with_another_content_is_a_conflict", "repeated_event_is_stored_once")
class SeesNoConflict(WallStore):
    def outcome(self, part: Part, outcome: Outcome) -> Outcome:
        return attrs.evolve(outcome, conflict=False) if isinstance(outcome, Duplicate) else outcome


@STORES.caught_by("events_are_appended_with_dense_offsets")
class OffsetsFromOne(WallStore):
    def outcome(self, part: Part, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Stored):
            return attrs.evolve(outcome, offset=outcome.offset + 1)
        return outcome


# Claims and leases.


@STORES.caught_by("accept_is_claimed_under_a_valid_lease", "publish_of_a_send_starts_it_under_a_valid_lease")
class NeverClaims(WallStore):
    def part(self, part: Part) -> Part:
        return attrs.evolve(part, claim=None) if isinstance(part, Publish) else part


@STORES.caught_by(
    "accept_under_a_stale_lease_is_stored_unclaimed",
    "zombie_is_fenced",
    "lease_fences_what_was_submitted_behind_it_in_the_same_batch",
    "numbers_go_on_where_they_stood",
    "refusal_is_an_exception_of_its_own_for_each_caller",
    "prune_under_an_older_lease_takes_nothing",
)
class NeverFences(WallStore):
    def __init__(self, store: Journal) -> None:
        super().__init__(store)
        self.valid = list(store.epochs)

    def part(self, part: Part) -> Part:
        match part:
            case TakeLease(shard):
                self.valid[shard] += 1
            case Commit(shard=shard):
                return attrs.evolve(part, epoch=self.valid[shard])
            case Publish(claim=claim) if claim is not None:
                return attrs.evolve(part, claim=attrs.evolve(claim, epoch=self.valid[claim.shard]))
            case _:
                pass
        return part


@STORES.caught_by(
    "stale_claim_is_refused_alone",
    "late_answer_of_an_earlier_claim_changes_nothing",
    "move_must_name_the_row_as_it_is",
    "stale_send_is_refused",
    "move_must_name_the_send_as_it_is",
    "commit_with_one_bad_move_stores_nothing_of_it",
)
class BelievesEveryMove(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit):
            return part
        return attrs.evolve(
            part,
            inbox=tuple(self._inbox(move) for move in part.inbox),
            outbox=tuple(self._outbox(move) for move in part.outbox),
        )

    def _inbox(self, move: InboxMove) -> InboxMove:
        stored = self.real.inbox(move.before.id)
        return move if stored is None else attrs.evolve(move, before=stored.record)

    def _outbox(self, move: OutboxMove) -> OutboxMove:
        stored = self.real.outbox(move.before.id)
        return move if stored is None else attrs.evolve(move, before=stored.record)


@STORES.caught_by("claim_may_ride_behind_its_accept")
class ClaimsWhatItSees(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit):
            return part
        seen = tuple(move for move in part.inbox if self.real.inbox(move.before.id) is not None)
        return attrs.evolve(part, inbox=seen)


@STORES.caught_by("claim_of_a_duplicate_is_dropped_and_the_rest_is_stored")
class SaysNotWhatItDropped(WallStore):
    def outcome(self, part: Part, outcome: Outcome) -> Outcome:
        return attrs.evolve(outcome, dropped=()) if isinstance(outcome, Committed) else outcome


@STORES.caught_by("row_of_another_shard_is_refused")
class TakesTheShardOfTheRow(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit):
            return part
        rows = [move.before for move in part.inbox] + [new.record for new in part.new_outbox]
        shard = rows[0].shard if rows else part.shard
        return attrs.evolve(part, shard=shard, epoch=self.epochs[shard])


# One Commit, all of it or none.


@STORES.caught_by("commit_is_stored_whole", "commit_with_one_bad_move_stores_nothing_of_it")
class CommitsInTwoSteps(WallStore):
    def submit(self, part: Part, settle: Settle) -> None:
        if isinstance(part, Commit):
            effects = attrs.evolve(part, inbox=(), outbox=())
            self.store.submit(effects, lambda _: None)
            part = attrs.evolve(part, new_outbox=(), state=(), emits=(), facts=(), relayed=())
        self.store.submit(part, settle)


@STORES.caught_by("commit_is_stored_whole", "last_write_of_a_batch_wins")
class ForgetsState(WallStore):
    def part(self, part: Part) -> Part:
        return attrs.evolve(part, state=()) if isinstance(part, Commit) else part


@STORES.caught_by("last_write_of_a_batch_wins")
class NeverRemovesState(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Commit):
            return part
        return attrs.evolve(part, state=tuple(write for write in part.state if write.value is not None))


@STORES.caught_by("state_has_a_limit", "fact_has_a_limit")
class CutsWhatIsTooLong(WallStore):
    def part(self, part: Part) -> Part:
        match part:
            case Commit(state=state):
                cut = (attrs.evolve(w, value=w.value and w.value[:_STATE_BYTES]) for w in state)
                return attrs.evolve(part, state=tuple(cut))
            case Publish(facts=facts):
                return attrs.evolve(part, facts=tuple(_cut(fact) for fact in facts))
            case _:
                return part


def _cut(fact: Fact) -> Fact:
    return attrs.evolve(fact, value=fact.value and fact.value[:_FACT_BYTES])


@STORES.caught_by("part_that_cannot_be_stored_is_refused_alone")
class MakesItFit(WallStore):
    def part(self, part: Part) -> Part:
        if not isinstance(part, Publish) or not isinstance(part.row, NewInbox):
            return part
        record = part.row.record
        fitting = attrs.evolve(
            record,
            accepted_at_us=min(record.accepted_at_us, 2**63 - 1),
            channel=record.channel.encode(errors="replace").decode() if record.channel else None,
        )
        return attrs.evolve(part, row=attrs.evolve(part.row, record=fitting))


@STORES.caught_by(
    "requeue_is_an_arrival_at_the_tail_and_has_one_winner", "requeued_parts_arrive_together_at_the_tail"
)
class ForgetsTails(WallStore):
    def outcome(self, part: Part, outcome: Outcome) -> Outcome:
        return attrs.evolve(outcome, tails=()) if isinstance(outcome, Committed) else outcome


@STORES.caught_by("emits_reach_their_homes_once")
class ForgetsEmits(WallStore):
    def part(self, part: Part) -> Part:
        return attrs.evolve(part, emits=()) if isinstance(part, Commit) else part


@STORES.caught_by("fact_of_a_publish_is_stored_even_beside_a_duplicate")
class FactsOfTheFirst(WallStore):
    def __init__(self, store: Journal) -> None:
        super().__init__(store)
        self.keys: set[str | None] = set()

    def part(self, part: Part) -> Part:
        if not isinstance(part, Publish) or not isinstance(part.row, NewInbox):
            return part
        key = part.row.dedupe_key
        facts = () if key in self.keys else part.facts
        self.keys.add(key)
        return attrs.evolve(part, facts=facts)


# Life.


@STORES.caught_by("history_is_one_unbroken_chain_per_shard", "history_shows_a_changed_row")
class HistoryWithAHole(WallStore):
    def read_history(self, shard: int, after_hseq: int, limit: int) -> list[HistoryRow]:
        rows = self.real.history(shard, after_hseq, limit)
        return rows[:1] + rows[2:]


@STORES.caught_by("history_is_read_in_pages")
class HistoryFromTheStart(WallStore):
    def read_history(self, shard: int, after_hseq: int, limit: int) -> list[HistoryRow]:
        return self.real.history(shard, 0, limit)


@STORES.caught_by("publish_cancelled_before_the_hand_over_stores_nothing")
class StoresWhatWasCancelled(WallStore):
    async def publish(self, part: Publish) -> Stored | Duplicate:
        self.submit(part, lambda _: None)
        return await super().publish(part)


@STORES.caught_by("publish_cancelled_after_the_hand_over_learns_the_outcome")
class LeavesAfterTheHandOver(WallStore):
    async def publish(self, part: Publish) -> Stored | Duplicate:
        outcome = await self.settled(part)
        assert isinstance(outcome, Stored | Duplicate)
        return outcome


@STORES.caught_by("stopping_stores_what_was_submitted_and_refuses_the_rest")
class AnotherCodeAtTheEnd(WallStore):
    def outcome(self, part: Part, outcome: Outcome) -> Outcome:
        if isinstance(outcome, Refused) and outcome.error.code is Code.BUS_CLOSED:
            return Refused(BusError(Code.STORE_BUSY, "later"))
        return outcome


@STORES.caught_by("callback_that_raises_keeps_none_of_the_others_from_theirs")
class HidesWhatCallbacksRaise(WallStore):
    def submit(self, part: Part, settle: Settle) -> None:
        def quiet(outcome: Outcome) -> None:
            try:
                settle(outcome)
            except LookupError:
                return

        self.store.submit(part, quiet)


@STORES.caught_by("refusal_is_an_exception_of_its_own_for_each_caller")
class OneExceptionForAll(WallStore):
    def __init__(self, store: Journal) -> None:
        super().__init__(store)
        self.errors: dict[Code, BusError] = {}

    def error_of(self, error: BusError) -> BusError:
        return self.errors.setdefault(error.code, error)


# Claims.


@STORES.caught_by("caps_are_what_was_said")
class ClaimsMoreThanWasSaid(WallStore):
    @property
    def caps(self) -> Caps:
        return attrs.evolve(MEMORY, shared="host")


@STORES.caught_by(
    "closed_store_is_in_its_folder_alone",
    "kill_loses_nothing_that_was_answered",
    "second_owner_is_refused",
)
class MemoryThatClaimsToLast(WallStore):
    claims = attrs.evolve(MEMORY, durable="process")

    @property
    def caps(self) -> Caps:
        return self.claims
