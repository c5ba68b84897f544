"""The contract of sends, emits, events, state and facts."""

from __future__ import annotations

from pathlib import Path

import attrs

from ...actors.errors import Code
from ..commands import (
    Committed,
    Duplicate,
    Emit,
    EmitNumber,
    Fact,
    NewEvent,
    NewInbox,
    NewOutbox,
    OutboxMove,
    StateWrite,
    Stored,
)
from ..port import StoredState
from ..records import InboxStatus, OnUncertain, OutboundContent, OutboxState, OutboxStatus
from .opened import StoreContract, refusal_code, refused, running, submit_all
from .rows import (
    AT_US,
    doubt_send,
    fail_send,
    finish_row,
    finish_send,
    requeue_send,
    start_send,
)


class StoreSendsKit(StoreContract):
    """What a backend keeps beside the inbox."""

    # Sends.

    async def check_repeated_send_is_a_duplicate(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            first = await hand.enqueue("tg:1", "a", started=True)
            again = hand.new_outbox("tg:1", "a", started=True)
            outcome = await hand.store.commit(hand.commit(first.shard, new_outbox=(again,)))

            assert outcome == Committed(outbox=(Duplicate(first.id, first.shard, first.seq, conflict=False),))
            assert hand.outbox(first.id) == first

    async def check_identity_used_for_another_text_refuses_the_whole_commit(self, home: Path) -> None:
        await self._identity_is_taken(home, "tg:1", "other")

    async def check_identity_used_for_another_conversation_refuses_the_whole_commit(self, home: Path) -> None:
        await self._identity_is_taken(home, "tg:11", "answer")

    async def _identity_is_taken(self, home: Path, key: str, text: str) -> None:
        async with running(self.open(home)) as hand:
            first = await hand.enqueue("tg:1", "a")
            new = hand.new_outbox(key, "a", text=text)
            shard = new.record.shard
            fine = hand.new_outbox(key, "fine")
            outcomes = await submit_all(
                hand, hand.commit(shard, new_outbox=(fine, new)), hand.publish(hand.new_inbox("tg:1", 1))
            )

            assert refusal_code(outcomes[0]) is Code.IDENTITY_MISMATCH
            assert isinstance(outcomes[1], Stored)
            assert hand.store.reader.find_outbox("telegram", "fine", 0) is None
            assert hand.outbox(first.id) == first

    async def check_publish_of_a_send_starts_it_under_a_valid_lease(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            first = hand.new_outbox("tg:1", "a")
            second = hand.new_outbox("tg:1", "b", started=True)
            started = await hand.store.publish(hand.publish(first, claim=True))
            waiting = await hand.store.publish(hand.publish(second))

            assert isinstance(started, Stored)
            assert isinstance(waiting, Stored)
            assert (started.claimed, waiting.claimed) == (True, False)
            assert hand.outbox(first.record.id).state is OutboxState.FLYING
            assert hand.outbox(first.record.id).claim == 1
            assert hand.outbox(first.record.id).attempts == 1
            assert hand.outbox(second.record.id).state is OutboxState.READY
            assert hand.outbox(second.record.id).attempts == 0

    async def check_parts_of_one_text_share_a_seq_and_are_never_torn_apart(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            shard = hand.shard("tg:1")
            texts = [
                hand.new_outbox("tg:1", name, part=1_000 * part) for name in ("a", "b") for part in range(3)
            ]
            outcome = await hand.store.commit(hand.commit(shard, new_outbox=tuple(texts)))
            piece = hand.new_outbox("tg:1", "a", part=1, seq=1)
            await hand.store.commit(hand.commit(shard, new_outbox=(piece,)))
            pages = {
                limit: [
                    (row.record.seq, row.record.part)
                    for row in hand.store.reader.outbox_lane(shard, "tg:1", 0, limit)
                ]
                for limit in (1, 4, 5, 99)
            }
            rest = hand.store.reader.outbox_lane(shard, "tg:1", 1, 99)

            assert [sent.seq for sent in outcome.outbox if isinstance(sent, Stored)] == [1, 1, 1, 2, 2, 2]
            first = [(1, 0), (1, 1), (1, 1_000), (1, 2_000)]
            second = [(2, 0), (2, 1_000), (2, 2_000)]
            assert pages == {1: first, 4: first, 5: first + second, 99: first + second}
            assert [(row.record.seq, row.record.part) for row in rest] == second

    async def check_requeued_parts_arrive_together_at_the_tail(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            shard = hand.shard("tg:1")
            parts = tuple(hand.new_outbox("tg:1", "a", part=1_000 * part) for part in range(2))
            await hand.store.commit(hand.commit(shard, new_outbox=parts))
            dead = [fail_send(hand.outbox(part.record.id), dead=True) for part in parts]
            await hand.store.commit(hand.commit(shard, outbox=tuple(dead)))
            await hand.enqueue("tg:1", "b")
            back = tuple(requeue_send(move.after) for move in dead)
            outcome = await hand.store.commit(hand.commit(shard, outbox=back))

            assert outcome.tails == tuple((part.record.id, 3) for part in parts)
            assert hand.outbox(parts[1].record.id).seq == 3

    async def check_stale_send_is_refused(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            ready = await hand.enqueue("tg:1", "a")
            flying = start_send(ready)
            await hand.move(flying)
            stale: list[OutboxMove] = [start_send(ready)]
            sent = finish_send(flying.after)
            await hand.move(sent)
            stale += [doubt_send(flying.after), finish_send(flying.after)]
            for move in stale:
                with refused(Code.STALE_CLAIM):
                    await hand.move(move)

            assert hand.outbox(ready.id) == sent.after

    async def check_move_must_name_the_send_as_it_is(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            flying = await hand.enqueue("tg:1", "a", started=True)
            for wrong in (
                attrs.evolve(flying, claim=0),
                attrs.evolve(flying, claim=2),
                attrs.evolve(flying, status=OutboxStatus.FAILED),
                attrs.evolve(flying, status=OutboxStatus.SENT),
                attrs.evolve(flying, in_flight=False),
                attrs.evolve(flying, generation=1),
                attrs.evolve(flying, uncertain_since_us=AT_US),
                attrs.evolve(flying, dead_at_us=AT_US),
            ):
                with refused(Code.STALE_CLAIM):
                    await hand.move(finish_send(wrong))

            assert hand.outbox(flying.id) == flying

    async def check_content_of_a_send_is_kept(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            content = OutboundContent(
                text="né\n😀",
                inbox_id=7,
                reply_to="11",
                on_uncertain=OnUncertain.RESEND,
                correlation_id="c",
                hops=3,
            )
            new = attrs.evolve(hand.new_outbox("tg:1", "a"), content=content)
            await hand.store.commit(hand.commit(new.record.shard, new_outbox=(new,)))

            stored = hand.store.reader.find_outbox("telegram", "a", 0)
            assert stored is not None
            assert stored.content == content
            assert hand.store.reader.find_outbox("telegram", "a", 1) is None
            assert hand.store.reader.find_outbox("slack", "a", 0) is None

    # Emits.

    async def check_emits_reach_their_homes_once(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            shard, reader = record.shard, hand.store.reader
            inbox, outbox = hand.new_inbox("tg:22", 1), hand.new_outbox("tg:33", "a", started=True)
            event = hand.new_event("order.shipped", 1)
            rows: tuple[NewInbox | NewOutbox | NewEvent, ...] = (inbox, outbox, event)
            emits = tuple(Emit(EmitNumber(shard, record.seq, index), row) for index, row in enumerate(rows))
            outcome = await hand.store.commit(hand.commit(shard, inbox=(finish_row(record),), emits=emits))

            if self.caps.emits == "relayed":
                assert outcome == Committed()
                assert reader.inbox(inbox.record.id) is None
                waiting = reader.emits(shard, 99)
                assert [number for number, _ in waiting] == [emit.number for emit in emits]
                assert reader.emits(shard, 2) == waiting[:2]
                for _, part in waiting:
                    await hand.store.publish(part)
            else:
                assert [type(emitted) for emitted in outcome.emits] == [Stored] * 3
                waiting = [
                    (emit.number, attrs.evolve(hand.publish(emit.row), relayed=emit.number)) for emit in emits
                ]
            for _, part in waiting:
                assert isinstance(await hand.store.publish(part), Duplicate)
            relayed = tuple(emit.number for emit in emits)
            await hand.store.commit(hand.commit(shard, relayed=relayed))
            await hand.store.commit(hand.commit(shard, relayed=relayed))

            arrived = reader.inbox(inbox.record.id)
            assert reader.emits(shard, 99) == []
            assert arrived is not None
            assert arrived.message == inbox.message
            assert arrived.record == attrs.evolve(inbox.record, seq=1)
            sent = reader.outbox(outbox.record.id)
            assert sent is not None
            assert sent.content == outbox.content
            # Nobody's claim: the target's shard starts it.
            assert sent.record.state is OutboxState.READY
            assert (sent.record.claim, sent.record.attempts) == (0, 0)

    # Event topics.

    async def check_events_are_appended_with_dense_offsets(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            parts = [
                hand.publish(
                    hand.new_event("order.shipped", number, partition=number % 3), at_us=AT_US - number
                )
                for number in range(9)
            ]
            outcomes = await submit_all(hand, *parts)

            assert [stored.offset for stored in outcomes if isinstance(stored, Stored)] == [
                0, 0, 0, 1, 1, 1, 2, 2, 2,
            ]  # fmt: skip
            assert hand.store.reader.count_inbox() == dict.fromkeys(InboxStatus, 0)
        async with running(self.open(home)) as hand:
            again = await hand.store.publish(hand.publish(hand.new_event("order.shipped", 9)))

            assert isinstance(again, Stored)
            assert again.offset == 3

    async def check_repeated_event_is_stored_once(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            first = hand.new_event("order.shipped", 1, dedupe_key="topic:order.shipped:k")
            again = hand.new_event("order.shipped", 1, dedupe_key="topic:order.shipped:k")
            other = hand.new_event("order.shipped", 2, dedupe_key="topic:order.shipped:k")
            outcomes = await submit_all(hand, *(hand.publish(event) for event in (first, again, other)))
            late = await hand.store.publish(hand.publish(other))
            free = await submit_all(
                hand, *(hand.publish(hand.new_event("order.shipped", 1)) for _ in range(2))
            )

            assert isinstance(outcomes[0], Stored)
            assert outcomes[1:] == [
                Duplicate(first.id, 0, 0, conflict=False),
                Duplicate(first.id, 0, 0, conflict=True),
            ]
            assert late == Duplicate(first.id, 0, 0, conflict=True)
            assert [type(outcome) for outcome in free] == [Stored, Stored]

    # State and facts.

    async def check_last_write_of_a_batch_wins(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            shard = hand.shard("tg:1")
            writes = [
                StateWrite("tg:1", value, index) for index, value in enumerate([b"a", None, b"b", b"c"])
            ]
            await submit_all(hand, *(hand.commit(shard, state=(write,)) for write in writes))

            assert hand.store.reader.state("tg:1") == StoredState(b"c", 3)
            await submit_all(
                hand,
                hand.commit(shard, state=(StateWrite("tg:1", b"d", 1),)),
                hand.commit(shard, state=(StateWrite("tg:1", None, 1),)),
            )
            assert hand.store.reader.state("tg:1") is None

    async def check_fact_of_a_publish_is_stored_even_beside_a_duplicate(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            for position in (b"1", b"2"):
                facts = (Fact("line", "pos", position),)
                await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 1), facts=facts))

            assert hand.store.reader.fact("line", "pos") == b"2"
            assert hand.store.reader.fact("core", "pos") is None
            await hand.store.commit(hand.commit(0, facts=(Fact("line", "pos", None),)))
            assert hand.store.reader.fact("line", "pos") is None

    async def check_fact_has_a_limit(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            for size_bytes, code in ((64 * 1024, None), (64 * 1024 + 1, Code.TOO_LARGE)):
                part = hand.publish(
                    hand.new_inbox("tg:1", size_bytes), facts=(Fact("a", "b", bytes(size_bytes)),)
                )
                (outcome,) = await submit_all(hand, part)
                assert code is None or refusal_code(outcome) is code
            assert hand.store.reader.count_inbox()[InboxStatus.QUEUED] == 1
