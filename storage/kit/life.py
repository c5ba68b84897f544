"""The contract of a store's life: its history, its cancellations, its end and its next opening."""

from __future__ import annotations

import random
from pathlib import Path

import attrs
import trio
import trio.testing

from ...actors.errors import BusError, Code
from ..commands import (
    Committed,
    Outcome,
    Publish,
    Stored,
)
from ..records import InboxStatus
from ..sqlite.chain import find_break
from .opened import StoreContract, refusal_code, refused, running, submit_all
from .rows import (
    AT_US,
    Hand,
    claim_row,
    fail_row,
    finish_row,
    finish_send,
    kill_row,
    requeue_row,
    start_send,
)

_RAISE_LIMIT_S = 10.0


class StoreLifeKit(StoreContract):
    """What a backend keeps over time."""

    # Tails.

    async def check_requeue_is_an_arrival_at_the_tail_and_has_one_winner(self, home: Path) -> None:
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

    async def check_history_is_one_unbroken_chain_per_shard(self, home: Path) -> None:
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

    async def check_history_shows_a_changed_row(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            await play(hand, rounds=40)
            chain = hand.store.reader.history(hand.shard("tg:1"), 0, 10_000)
            changed = attrs.evolve(chain[4], after="done", claim=chain[4].claim + 1)

            assert find_break([*chain[:4], changed, *chain[5:]]) is changed
            assert find_break([*chain[:4], *chain[5:]]) is chain[5]
            assert find_break(chain[6:], before=chain[5].h, hseq=6) is None

    async def check_history_is_read_in_pages(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            await play(hand, rounds=40)
            shard = hand.shard("tg:1")
            whole = hand.store.reader.history(shard, 0, 10_000)
            pages = [hand.store.reader.history(shard, after, 7) for after in range(0, len(whole), 7)]

            assert len(whole) > 20
            assert [row for page in pages for row in page] == whole
            assert hand.store.reader.history(shard, 2, 1) == whole[2:3]

    # Cancellation and closing.

    async def check_publish_cancelled_before_the_hand_over_stores_nothing(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            with trio.CancelScope() as scope:
                scope.cancel()
                await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 1)))
            await hand.accept("tg:1", 2)

            assert scope.cancelled_caught
            assert hand.store.reader.count_inbox()[InboxStatus.QUEUED] == 1

    async def check_publish_cancelled_after_the_hand_over_learns_the_outcome(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            stored: list[object] = []

            async def publish(part: Publish, scope: trio.CancelScope) -> None:
                with scope:
                    stored.append(await hand.store.publish(part))

            # Cancelled at every step of the way, and often, for tasks run in any order.
            for number in range(60):
                async with trio.open_nursery() as nursery:
                    scope = trio.CancelScope()
                    nursery.start_soon(publish, hand.publish(hand.new_inbox("tg:1", number)), scope)
                    for _ in range(number % 4):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()

            await hand.accept("tg:1", 99)
            assert len(stored) + 1 == hand.store.reader.count_inbox()[InboxStatus.QUEUED]

    async def check_stopping_stores_what_was_submitted_and_refuses_the_rest(self, home: Path) -> None:
        store = self.open(home)
        early: list[object] = []
        late: list[Outcome] = []
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

    async def check_callback_that_raises_keeps_none_of_the_others_from_theirs(self, home: Path) -> None:
        store = self.open(home)
        told: list[object] = []

        def fail(_: object) -> None:
            raise LookupError("a callback")

        raised = False
        try:
            async with running(store) as hand:
                store.submit(hand.publish(hand.new_inbox("tg:1", 1)), told.append)
                store.submit(hand.publish(hand.new_inbox("tg:1", 2)), fail)
                store.submit(hand.publish(hand.new_inbox("tg:1", 3)), told.append)
                with trio.move_on_after(_RAISE_LIMIT_S):
                    await trio.sleep_forever()
        except* LookupError:
            raised = True

        assert raised
        assert [type(outcome) for outcome in told] == [Stored, Stored]
        async with running(self.open(home)) as hand:
            assert hand.store.reader.count_inbox()[InboxStatus.QUEUED] == 3

    async def check_numbers_go_on_where_they_stood(self, home: Path) -> None:
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

    async def check_refusal_is_an_exception_of_its_own_for_each_caller(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            caught: list[BusError] = []
            part = hand.commit(0, epoch=hand.store.epochs[0] - 1)

            async def commit() -> None:
                try:
                    await hand.store.commit(part)
                except BusError as error:
                    caught.append(error)

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
