"""The contract of a store's writes: a backend's test class says how to open one, and inherits the tests."""

from __future__ import annotations

import random
from pathlib import Path

import attrs
import pytest
import trio

from shardline.actors.errors import BusError, Code
from shardline.storage.commands import (
    Committed,
    Duplicate,
    Emit,
    EmitNumber,
    Fact,
    InboxMove,
    Leased,
    Publish,
    StateWrite,
    Stored,
    TakeLease,
)
from shardline.storage.journal import Journal
from shardline.storage.port import StoredState
from shardline.storage.records import InboxStatus, OutboxState
from shardline.storage.sqlite.chain import find_break
from tests.kits.store_rows import (
    AT_US,
    TOPIC,
    Hand,
    claim_row,
    fail_row,
    finish_row,
    finish_send,
    kill_row,
    requeue_row,
    start_send,
)
from tests.kits.stores import Home, refusal_code, running, submit_all
from tests.kits.words import refused


class StoreKit:
    """What every backend keeps. `open` opens the home's store, anew after it was closed."""

    def open(self, home: Home) -> Journal:
        raise NotImplementedError

    @pytest.fixture
    def home(self, tmp_path: Path) -> Home:
        return Home(tmp_path)

    # Order and offsets.

    async def test_order_of_submission_is_the_order_of_seq_and_offset(self, home: Home) -> None:
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

    async def test_inbox_and_outbox_draw_seq_from_one_counter(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            first = await hand.accept("tg:1", 1)
            send = await hand.enqueue("tg:1", "a")
            second = await hand.accept("tg:1", 2)

            assert [first.seq, send.seq, second.seq] == [1, 2, 3]

    # Repeats.

    async def test_repeat_gives_the_first_place_and_takes_no_offset(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            first = await hand.accept("tg:1", 1)
            again = await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 1)))
            later = await hand.accept("tg:1", 2)

            assert again == Duplicate(first.id, first.partition, first.offset, conflict=False)
            assert later.offset == first.offset + 1
            assert later.seq == first.seq + 1

    async def test_repeats_inside_one_batch_are_stored_once(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            parts = [hand.publish(hand.new_inbox("tg:1", number)) for number in (1, 1, 2, 1, 2)]
            outcomes = await submit_all(hand, *parts)

            places = [(outcome.offset if isinstance(outcome, Stored) else -1) for outcome in outcomes]
            assert places == [0, -1, 1, -1, -1]
            repeats = [outcome for outcome in outcomes if isinstance(outcome, Duplicate)]
            assert [repeat.offset for repeat in repeats] == [0, 0, 1]
            assert hand.store.reader.count_inbox()[InboxStatus.QUEUED] == 2

    @pytest.mark.parametrize("together", [True, False])
    async def test_repeat_with_another_content_is_a_conflict(self, home: Home, together: bool) -> None:
        async with running(self.open(home)) as hand:
            first = hand.publish(hand.new_inbox("tg:1", 1, text="hi"))
            other = hand.publish(hand.new_inbox("tg:1", 1, text="ho"))
            outcomes = (
                await submit_all(hand, first, other)
                if together
                else [await hand.store.publish(first), await hand.store.publish(other)]
            )

            assert isinstance(outcomes[1], Duplicate)
            assert outcomes[1].conflict
            stored = hand.store.reader.list_inbox(status=None, key="tg:1", offset=0, limit=9)
            assert [row.message.payload.text for row in stored] == ["hi"]

    # Claims and leases.

    async def test_accept_is_claimed_under_a_valid_lease(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)

            assert record.status is InboxStatus.RUNNING
            assert (record.claim, record.epoch) == (1, hand.store.info.instance)
            assert record.started_at_us == AT_US

    async def test_accept_under_a_stale_lease_is_stored_unclaimed(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            row = hand.new_inbox("tg:1", 1)
            stored = await hand.store.publish(hand.publish(row, claim=True, epoch=hand.store.epochs[0] - 1))

            assert isinstance(stored, Stored)
            assert not stored.claimed
            assert hand.inbox(stored.id).status is InboxStatus.QUEUED
            assert hand.inbox(stored.id).claim == 0

    async def test_zombie_is_fenced(self, home: Home) -> None:
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

    async def test_lease_fences_what_was_submitted_behind_it_in_the_same_batch(self, home: Home) -> None:
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

    async def test_stale_claim_is_refused_alone(self, home: Home) -> None:
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

    async def test_late_answer_of_an_earlier_claim_changes_nothing(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            first = await hand.accept("tg:1", 1, claim=True)
            back = attrs.evolve(first, status=InboxStatus.QUEUED, crashes=1)
            await hand.move(InboxMove(first, back, "crash"))
            second = claim_row(back)
            await hand.move(second)
            with refused(Code.STALE_CLAIM):
                await hand.move(finish_row(first))

            assert hand.inbox(first.id) == second.after

    async def test_claim_may_ride_behind_its_accept(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            row = hand.new_inbox("tg:1", 1)
            outcomes = await submit_all(
                hand, hand.publish(row), hand.commit(row.record.shard, inbox=(claim_row(row.record),))
            )

            assert isinstance(outcomes[0], Stored)
            assert outcomes[1] == Committed()
            assert hand.inbox(row.record.id).status is InboxStatus.RUNNING

    @pytest.mark.parametrize("together", [True, False])
    async def test_claim_of_a_duplicate_is_dropped_and_the_rest_is_stored(
        self, home: Home, together: bool
    ) -> None:
        async with running(self.open(home)) as hand:
            done = await hand.accept("tg:1", 1, claim=True)
            repeat = hand.new_inbox("tg:1", 1)
            accept = hand.publish(repeat)
            commit = hand.commit(
                done.shard,
                inbox=(finish_row(done), claim_row(repeat.record)),
                state=(StateWrite("tg:1", b"s", 1),),
            )
            if together:
                outcome = (await submit_all(hand, accept, commit))[1]
            else:
                await hand.store.publish(accept)
                outcome = await hand.store.commit(commit)

            assert outcome == Committed(dropped=(repeat.record.id,))
            assert hand.inbox(done.id).status is InboxStatus.DONE
            assert hand.store.reader.state("tg:1") == StoredState(b"s", 1)
            assert hand.store.reader.inbox(repeat.record.id) is None

    # One Commit, all of it or none.

    async def test_commit_is_stored_whole(self, home: Home) -> None:
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

    async def test_commit_with_one_bad_move_stores_nothing_of_it(self, home: Home) -> None:
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

    async def test_row_of_another_shard_is_refused(self, home: Home) -> None:
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

    @pytest.mark.parametrize("size_bytes", [256 * 1024, 256 * 1024 + 1])
    async def test_state_has_a_limit(self, home: Home, size_bytes: int) -> None:
        async with running(self.open(home)) as hand:
            write = StateWrite("tg:1", bytes(size_bytes), 1)
            outcomes = await submit_all(
                hand, hand.commit(hand.shard("tg:1"), state=(write,)), hand.publish(hand.new_inbox("tg:1", 1))
            )

            if size_bytes > 256 * 1024:
                assert refusal_code(outcomes[0]) is Code.TOO_LARGE
            else:
                assert outcomes[0] == Committed()
            assert isinstance(outcomes[1], Stored)

    async def test_part_that_cannot_be_stored_is_refused_alone(self, home: Home) -> None:
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

    # Tails.

    async def test_requeue_is_an_arrival_at_the_tail_and_has_one_winner(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            dead = kill_row(record)
            await hand.move(dead)
            await hand.accept("tg:1", 2)
            again = hand.commit(record.shard, inbox=(requeue_row(dead.after),))
            outcomes = await submit_all(hand, again, again)

            assert outcomes[0] == Committed(tails=((record.id, 3),))
            assert refusal_code(outcomes[1]) is Code.STALE_CLAIM
            requeued = hand.inbox(record.id)
            assert (requeued.seq, requeued.offset, requeued.generation) == (3, record.offset, 1)
            assert (requeued.claim, requeued.errors) == (1, ())
            lane = hand.store.reader.inbox_lane(record.shard, "tg:1", 0, 9)
            assert [row.record.id for row in lane][-1] == record.id

    # The record of every transition.

    async def test_history_is_one_unbroken_chain_per_shard(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            await play(hand, rounds=60)
            chains = [
                hand.store.reader.history(shard, 0, 10_000) for shard in range(hand.store.info.shard_count)
            ]
            words = {row.event for chain in chains for row in chain}

            assert all(find_break(chain) is None for chain in chains)
            assert words >= {"accept", "accept+claim", "claim", "done", "fail", "dead", "requeue"}
            assert words >= {"enqueue", "enqueue+start", "start", "sent"}
            assert {row.shard for row in chains[3]} <= {3}
        async with running(self.open(home)) as hand:
            await play(hand, rounds=20, first=1_000)
            later = hand.store.reader.history(3, 0, 10_000)

            assert find_break(later) is None
            assert later[: len(chains[3])] == chains[3]

    async def test_history_shows_a_changed_row(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            await play(hand, rounds=40)
            chain = hand.store.reader.history(hand.shard("tg:1"), 0, 10_000)
            changed = attrs.evolve(chain[4], after="done", claim=chain[4].claim + 1)

            assert find_break([*chain[:4], changed, *chain[5:]]) is changed
            assert find_break([*chain[:4], *chain[5:]]) is chain[5]
            assert find_break(chain[6:], before=chain[5].h, hseq=6) is None

    async def test_history_is_read_in_pages(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            await play(hand, rounds=40)
            shard = hand.shard("tg:1")
            whole = hand.store.reader.history(shard, 0, 10_000)
            pages = [hand.store.reader.history(shard, after, 7) for after in range(0, len(whole), 7)]

            assert len(whole) > 20
            assert [row for page in pages for row in page] == whole
            assert hand.store.reader.history(shard, 2, 1) == whole[2:3]

    # Cancellation and closing.

    async def test_publish_cancelled_before_the_hand_over_stores_nothing(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            with trio.CancelScope() as scope:
                scope.cancel()
                await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 1)))
            await hand.accept("tg:1", 2)

            assert scope.cancelled_caught
            assert hand.store.reader.count_inbox()[InboxStatus.QUEUED] == 1

    async def test_publish_cancelled_after_the_hand_over_learns_the_outcome(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            stored: list[object] = []
            scope = trio.CancelScope()

            async def publish(part: Publish) -> None:
                with scope:
                    stored.append(await hand.store.publish(part))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish, hand.publish(hand.new_inbox("tg:1", 1)))
                await trio.lowlevel.checkpoint()
                scope.cancel()

            assert len(stored) == hand.store.reader.count_inbox()[InboxStatus.QUEUED]

    async def test_stopping_stores_what_was_submitted_and_refuses_the_rest(self, home: Home) -> None:
        store = self.open(home)
        early: list[object] = []
        late: list[object] = []
        async with running(store) as hand:
            rows = [hand.new_inbox("tg:1", number) for number in range(50)]
            for row in rows:
                store.submit(hand.publish(row), early.append)
        store.submit(Publish(row=hand.new_inbox("tg:1", 99), at_us=AT_US), late.append)
        await trio.testing.wait_all_tasks_blocked()

        assert [type(outcome) for outcome in early] == [Stored] * 50
        assert [refusal_code(outcome) for outcome in late] == [Code.BUS_CLOSED]
        with refused(Code.BUS_CLOSED):
            await store.publish(Publish(row=hand.new_inbox("tg:1", 99), at_us=AT_US))
        with refused(Code.BUS_CLOSED):
            store.reader.count_inbox()
        with refused(Code.BUS_CLOSED):
            await store.run()
        store.close()
        async with running(self.open(home)) as hand:
            assert hand.store.info.clean
            assert hand.store.reader.count_inbox()[InboxStatus.QUEUED] == 50

    async def test_callback_that_raises_keeps_none_of_the_others_from_theirs(self, home: Home) -> None:
        store = self.open(home)
        told: list[object] = []

        def fail(outcome: object) -> None:
            raise LookupError("a callback")

        with pytest.RaisesGroup(LookupError):
            async with running(store) as hand:
                store.submit(hand.publish(hand.new_inbox("tg:1", 1)), told.append)
                store.submit(hand.publish(hand.new_inbox("tg:1", 2)), fail)
                store.submit(hand.publish(hand.new_inbox("tg:1", 3)), told.append)
                await trio.sleep_forever()

        assert [type(outcome) for outcome in told] == [Stored, Stored]
        async with running(self.open(home)) as hand:
            assert hand.store.reader.count_inbox()[InboxStatus.QUEUED] == 3

    async def test_numbers_go_on_where_they_stood(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            first = await hand.accept("tg:1", 1)
            send = await hand.enqueue("tg:1", "a")
            before = hand.store
        async with running(self.open(home)) as hand:
            second = await hand.accept("tg:1", 2)
            event = hand.new_event("order.shipped", 1)

            assert second.id > first.id
            assert (second.seq, second.offset) == (send.seq + 1, first.offset + 1)
            assert hand.store.next_outbox_id() > send.id
            assert event.id >= 1
            assert hand.store.info.uuid == before.info.uuid
            assert hand.store.info.instance == before.info.instance + 1
            assert [epoch - 1 for epoch in hand.store.epochs] == list(before.epochs)
            with refused(Code.FENCED):
                await hand.store.commit(
                    hand.commit(second.shard, epoch=before.epochs[second.shard], inbox=(claim_row(second),))
                )

    async def test_refusal_is_an_exception_of_its_own_for_each_caller(self, home: Home) -> None:
        async with running(self.open(home)) as hand:
            caught: list[BusError] = []
            part = hand.commit(0, epoch=hand.store.epochs[0] - 1)

            async def commit() -> None:
                with pytest.raises(BusError) as error:
                    await hand.store.commit(part)
                caught.append(error.value)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(commit)
                nursery.start_soon(commit)

            assert [error.code for error in caught] == [Code.FENCED] * 2
            assert caught[0] is not caught[1]


async def play(hand: Hand, *, rounds: int, first: int = 0) -> None:
    """Messages through all their stations, over a few conversations."""
    numbers = random.Random(rounds)
    for number in range(first, first + rounds):
        key = f"tg:{numbers.randrange(4)}"
        record = await hand.accept(key, number, claim=numbers.random() < 0.5)
        if record.status is InboxStatus.QUEUED:
            claim = claim_row(record)
            await hand.move(claim)
            record = claim.after
        match number % 3:
            case 0:
                started = numbers.random() < 0.5
                new = hand.new_outbox(key, f"reply-{number}", started=started)
                moves = (finish_row(record),)
                await hand.store.commit(hand.commit(record.shard, inbox=moves, new_outbox=(new,)))
                send = hand.outbox(new.record.id)
                if not started:
                    await hand.move(start_send(send))
                await hand.move(finish_send(hand.outbox(send.id)))
            case 1:
                await hand.move(fail_row(record))
            case _:
                dead = kill_row(record)
                await hand.move(dead)
                await hand.move(requeue_row(dead.after))
