"""The contract of a store's writes: order, repeats, claims and leases, and each Commit whole or not at all."""

from __future__ import annotations

import random
from pathlib import Path

import attrs

from ...actors.errors import Code
from ..commands import (
    Committed,
    Duplicate,
    Emit,
    EmitNumber,
    Fact,
    InboxMove,
    Leased,
    StateWrite,
    Stored,
    TakeLease,
)
from ..port import StoredState
from ..records import InboxStatus, OutboxState
from .opened import StoreContract, refusal_code, refused, running, submit_all
from .rows import (
    AT_US,
    TOPIC,
    claim_row,
    finish_row,
)

_STATE_BYTES = 256 * 1024


class StoreWritesKit(StoreContract):
    """What a backend keeps of each write."""

    # Order and offsets.

    async def check_order_of_submission_is_the_order_of_seq_and_offset(self, home: Path) -> None:
        keys = [f"tg:{chat}" for chat in range(1, 40)]
        numbers = random.Random(1)
        async with running(self.open(home)) as hand:
            rows = [
                hand.new_inbox(numbers.choice(keys), number, topic=numbers.choice([TOPIC, "dm.reply.v1"]))
                for number in range(300)
            ]
            outcomes = await submit_all(hand, *(hand.publish(row) for row in rows))

            seqs: dict[int, list[int]] = {}
            offsets: dict[tuple[str, int], list[int]] = {}
            for row, outcome in zip(rows, outcomes, strict=True):
                assert isinstance(outcome, Stored)
                assert outcome.id == row.record.id
                seqs.setdefault(row.record.shard, []).append(outcome.seq)
                offsets.setdefault((row.record.topic, row.record.partition), []).append(outcome.offset)
                assert hand.inbox(outcome.id).seq == outcome.seq
                assert hand.inbox(outcome.id).offset == outcome.offset
            assert len(seqs) > 4
            # One number per shard over all its topics; one offset per topic and partition, without holes.
            assert all(values == list(range(1, len(values) + 1)) for values in seqs.values())
            assert all(values == list(range(len(values))) for values in offsets.values())

    async def check_inbox_and_outbox_draw_seq_from_one_counter(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            first = await hand.accept("tg:1", 1)
            send = await hand.enqueue("tg:1", "a")
            second = await hand.accept("tg:1", 2)

            assert [first.seq, send.seq, second.seq] == [1, 2, 3]

    # Repeats.

    async def check_repeat_gives_the_first_place_and_takes_no_offset(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            first = await hand.accept("tg:1", 1)
            again = await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 1)))
            later = await hand.accept("tg:1", 2)

            assert again == Duplicate(first.id, first.partition, first.offset, conflict=False)
            assert later.offset == first.offset + 1
            assert later.seq == first.seq + 1

    async def check_repeats_inside_one_batch_are_stored_once(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            parts = [hand.publish(hand.new_inbox("tg:1", number)) for number in (1, 1, 2, 1, 2)]
            outcomes = await submit_all(hand, *parts)

            places = [(outcome.offset if isinstance(outcome, Stored) else -1) for outcome in outcomes]
            assert places == [0, -1, 1, -1, -1]
            repeats = [outcome for outcome in outcomes if isinstance(outcome, Duplicate)]
            assert [repeat.offset for repeat in repeats] == [0, 0, 1]
            assert hand.store.reader.count_inbox()[InboxStatus.QUEUED] == 2

    async def check_repeat_with_another_content_is_a_conflict(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            for number, together in enumerate((True, False)):
                first = hand.publish(hand.new_inbox("tg:1", number, text="hi"))
                other = hand.publish(hand.new_inbox("tg:1", number, text="ho"))
                outcomes = (
                    await submit_all(hand, first, other)
                    if together
                    else [await hand.store.publish(first), await hand.store.publish(other)]
                )

                assert isinstance(outcomes[1], Duplicate)
                assert outcomes[1].conflict
            stored = hand.store.reader.list_inbox(status=None, key="tg:1", offset=0, limit=9)
            assert [row.message.payload.text for row in stored] == ["hi", "hi"]

    # Claims and leases.

    async def check_accept_is_claimed_under_a_valid_lease(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)

            assert record.status is InboxStatus.RUNNING
            assert (record.claim, record.epoch) == (1, hand.store.info.instance)
            assert record.started_at_us == AT_US

    async def check_accept_under_a_stale_lease_is_stored_unclaimed(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            row = hand.new_inbox("tg:1", 1)
            stored = await hand.store.publish(hand.publish(row, claim=True, epoch=hand.store.epochs[0] - 1))

            assert isinstance(stored, Stored)
            assert not stored.claimed
            assert hand.inbox(stored.id).status is InboxStatus.QUEUED
            assert hand.inbox(stored.id).claim == 0

    async def check_zombie_is_fenced(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1)
            old = hand.store.epochs[record.shard]
            leased = await hand.store.take_lease(record.shard)
            with refused(Code.FENCED):
                await hand.store.commit(hand.commit(record.shard, inbox=(claim_row(record),)))

            assert leased == Leased(record.shard, old + 1)
            assert hand.inbox(record.id) == record
            new = hand.commit(record.shard, epoch=leased.epoch, inbox=(claim_row(record),))
            assert await hand.store.commit(new) == Committed()

    async def check_lease_fences_what_was_submitted_behind_it_in_the_same_batch(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1)
            other = await hand.accept("tg:2", 1)
            assert record.shard != other.shard
            outcomes = await submit_all(
                hand,
                hand.commit(record.shard, facts=(Fact("core", "a", b"1"),)),
                TakeLease(record.shard),
                hand.commit(record.shard, inbox=(claim_row(record),)),
                hand.commit(other.shard, inbox=(claim_row(other),)),
            )

            assert outcomes[:2] == [Committed(), Leased(record.shard, hand.store.epochs[record.shard] + 1)]
            assert refusal_code(outcomes[2]) is Code.FENCED
            assert outcomes[3] == Committed()
            assert hand.inbox(record.id) == record

    async def check_stale_claim_is_refused_alone(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            records = [await hand.accept(f"tg:{chat}", 1, claim=True) for chat in range(6)]
            stale = records[3]
            await hand.move(finish_row(stale))
            outcomes = await submit_all(
                hand, *(hand.commit(record.shard, inbox=(finish_row(record),)) for record in records)
            )

            assert refusal_code(outcomes.pop(3)) is Code.STALE_CLAIM
            assert outcomes == [Committed()] * 5
            assert hand.store.reader.count_inbox()[InboxStatus.DONE] == 6

    async def check_late_answer_of_an_earlier_claim_changes_nothing(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            first = await hand.accept("tg:1", 1, claim=True)
            back = attrs.evolve(first, status=InboxStatus.QUEUED, crashes=1)
            await hand.move(InboxMove(first, back, "crash"))
            second = claim_row(back)
            await hand.move(second)
            with refused(Code.STALE_CLAIM):
                await hand.move(finish_row(first))

            assert hand.inbox(first.id) == second.after

    async def check_move_must_name_the_row_as_it_is(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            for wrong in (
                attrs.evolve(record, claim=0),
                attrs.evolve(record, claim=2),
                attrs.evolve(record, status=InboxStatus.QUEUED),
                attrs.evolve(record, status=InboxStatus.DONE),
                attrs.evolve(record, generation=1),
                attrs.evolve(record, id=record.id + 100),
            ):
                with refused(Code.STALE_CLAIM):
                    await hand.move(finish_row(wrong))

            assert hand.inbox(record.id) == record

    async def check_claim_may_ride_behind_its_accept(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            row = hand.new_inbox("tg:1", 1)
            outcomes = await submit_all(
                hand, hand.publish(row), hand.commit(row.record.shard, inbox=(claim_row(row.record),))
            )

            assert isinstance(outcomes[0], Stored)
            assert outcomes[1] == Committed()
            assert hand.inbox(row.record.id).status is InboxStatus.RUNNING

    async def check_claim_of_a_duplicate_is_dropped_and_the_rest_is_stored(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            for number, together in enumerate((True, False)):
                done = await hand.accept("tg:1", number, claim=True)
                repeat = hand.new_inbox("tg:1", number)
                accept = hand.publish(repeat)
                commit = hand.commit(
                    done.shard,
                    inbox=(finish_row(done), claim_row(repeat.record)),
                    state=(StateWrite("tg:1", b"s", number),),
                )
                if together:
                    outcome = (await submit_all(hand, accept, commit))[1]
                else:
                    await hand.store.publish(accept)
                    outcome = await hand.store.commit(commit)

                assert outcome == Committed(dropped=(repeat.record.id,))
                assert hand.inbox(done.id).status is InboxStatus.DONE
                assert hand.store.reader.state("tg:1") == StoredState(b"s", number)
                assert hand.store.reader.inbox(repeat.record.id) is None

    # One Commit, all of it or none.

    async def check_commit_is_stored_whole(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            follower = await hand.accept("tg:1", 2)
            send = hand.new_outbox("tg:1", "a", started=True, inbox_id=record.id)
            outcome = await hand.store.commit(
                hand.commit(
                    record.shard,
                    inbox=(finish_row(record), claim_row(follower)),
                    new_outbox=(send,),
                    state=(StateWrite("tg:1", b"s", 3),),
                    facts=(Fact("core", "pos", b"9"),),
                )
            )

            stored = hand.store.reader.outbox(send.record.id)
            assert outcome == Committed(outbox=(Stored(send.record.id, 3, 3, claimed=True),))
            assert stored is not None
            assert stored.content == send.content
            assert stored.record == attrs.evolve(send.record, seq=3)
            assert stored.record.state is OutboxState.FLYING
            assert hand.inbox(record.id).status is InboxStatus.DONE
            assert hand.inbox(follower.id).status is InboxStatus.RUNNING
            assert hand.store.reader.state("tg:1") == StoredState(b"s", 3)
            assert hand.store.reader.fact("core", "pos") == b"9"

    async def check_commit_with_one_bad_move_stores_nothing_of_it(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            gone = await hand.accept("tg:1", 2, claim=True)
            await hand.move(finish_row(gone))
            history = hand.store.reader.history(record.shard, 0, 99)
            with refused(Code.STALE_CLAIM):
                await hand.store.commit(
                    hand.commit(
                        record.shard,
                        inbox=(finish_row(record), finish_row(gone)),
                        new_outbox=(hand.new_outbox("tg:1", "a"),),
                        state=(StateWrite("tg:1", b"s", 1),),
                        emits=(Emit(EmitNumber(record.shard, record.seq, 0), hand.new_inbox("tg:2", 1)),),
                        facts=(Fact("core", "pos", b"9"),),
                    )
                )

            reader = hand.store.reader
            assert hand.inbox(record.id) == record
            assert reader.find_outbox("telegram", "a", 0) is None
            assert reader.state("tg:1") is None
            assert reader.fact("core", "pos") is None
            assert reader.count_inbox()[InboxStatus.QUEUED] == 0
            assert reader.emits(record.shard, 9) == []
            assert reader.history(record.shard, 0, 99) == history
            # The refused part took no number either.
            assert (await hand.accept("tg:1", 3)).seq == gone.seq + 1

    async def check_row_of_another_shard_is_refused(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            other = (record.shard + 1) % hand.store.info.shard_count
            for part in (
                hand.commit(other, inbox=(finish_row(record),)),
                hand.commit(other, new_outbox=(hand.new_outbox("tg:1", "a"),)),
            ):
                with refused(Code.IDENTITY_MISMATCH):
                    await hand.store.commit(part)

            assert hand.inbox(record.id) == record

    async def check_state_has_a_limit(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            for size_bytes in (_STATE_BYTES, _STATE_BYTES + 1):
                write = StateWrite("tg:1", bytes(size_bytes), 1)
                outcomes = await submit_all(
                    hand,
                    hand.commit(hand.shard("tg:1"), state=(write,)),
                    hand.publish(hand.new_inbox("tg:1", size_bytes)),
                )

                if size_bytes > _STATE_BYTES:
                    assert refusal_code(outcomes[0]) is Code.TOO_LARGE
                else:
                    assert outcomes[0] == Committed()
                assert isinstance(outcomes[1], Stored)

    async def check_part_that_cannot_be_stored_is_refused_alone(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            bad = hand.new_inbox("tg:1", 2)
            huge = attrs.evolve(bad.record, accepted_at_us=2**63)
            torn = attrs.evolve(bad, record=attrs.evolve(bad.record, channel="\ud800"))
            outcomes = await submit_all(
                hand,
                hand.publish(hand.new_inbox("tg:1", 1)),
                hand.publish(attrs.evolve(bad, record=huge)),
                hand.publish(torn),
                hand.publish(hand.new_inbox("tg:1", 3)),
            )

            assert [refusal_code(outcome) for outcome in outcomes[1:3]] == [Code.INVALID_MESSAGE] * 2
            first, last = outcomes[0], outcomes[3]
            assert isinstance(first, Stored)
            assert isinstance(last, Stored)
            assert last.offset == first.offset + 1
