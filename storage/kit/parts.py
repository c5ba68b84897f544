"""The contract of texts in several parts: how they are read, what holds them, how one is cut smaller."""

from __future__ import annotations

from pathlib import Path

import attrs

from ..commands import Commit, Emit, EmitNumber, NewOutbox, OutboxMove, OutboxRewrite, Stored
from ..records import OutboundContent, OutboxRecord, OutboxState
from .opened import StoreContract, running
from .rows import Hand, doubt_send, fail_send, start_send


class StorePartsKit(StoreContract):
    """What a backend does with the parts of a text."""

    async def check_page_begins_behind_a_part(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            await _text(hand, "a", 3)
            await _text(hand, "b", 1)
            shard, reader = hand.shard("tg:1"), hand.store.reader

            behind = reader.outbox_lane(shard, "tg:1", 1, 99, after_part=0)
            assert [(row.record.seq, row.record.part) for row in behind] == [(1, 1_000), (1, 2_000), (2, 0)]
            assert [row.record.seq for row in reader.outbox_lane(shard, "tg:1", 1, 99)] == [2]

    async def check_part_is_held_by_an_earlier_one_alone(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            reader = hand.store.reader
            parts = await _text(hand, "a", 3)
            await _text(hand, "b", 2)

            def held() -> list[bool]:
                return [reader.is_held("telegram", "a", part) for part in (0, 1_000, 2_000)]

            assert held() == [False, False, False]
            start = start_send(parts[1])
            doubt = doubt_send(start.after)
            await hand.move(start)
            assert held() == [False, False, False]
            await hand.move(doubt)
            assert held() == [False, False, True]
            await hand.move(_killed(doubt.after))
            assert held() == [False, False, True]
            assert not reader.is_held("telegram", "b", 1_000)
            assert not reader.is_held("slack", "a", 2_000)

    async def check_uncertain_send_blocks_what_is_behind_it(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            reader, shard = hand.store.reader, hand.shard("tg:1")
            (first,) = await _text(hand, "a", 1)
            second = (await _text(hand, "b", 3))[1]
            assert not reader.is_blocked(shard, "tg:1", 99, 0)
            start = start_send(second)
            doubt = doubt_send(start.after)
            await hand.move(start)
            await hand.move(doubt)

            assert (first.seq, second.seq, second.part) == (1, 2, 1_000)
            assert not reader.is_blocked(shard, "tg:1", 2, 1_000)
            assert reader.is_blocked(shard, "tg:1", 2, 2_000)
            assert reader.is_blocked(shard, "tg:1", 3, 0)
            assert not reader.is_blocked(shard, "tg:2", 3, 0)
            await hand.move(_killed(doubt.after))
            assert not reader.is_blocked(shard, "tg:1", 3, 0)

    async def check_parts_of_a_text_are_found(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            await _text(hand, "a", 3)
            await _text(hand, "b", 1)

            found = hand.store.reader.text_parts("telegram", "a")
            assert [row.record.part for row in found] == [0, 1_000, 2_000]
            assert hand.store.reader.text_parts("slack", "a") == []

    async def check_send_is_cut_smaller_in_its_place(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            first, second = await _text(hand, "a", 2)
            start = start_send(first)
            await hand.move(start)
            piece = OutboundContent(text="pie", is_piece=True)
            after = attrs.evolve(start.after, in_flight=False, attempts=0)
            move = OutboxMove(start.after, after, "resplit", "TOO_LARGE")
            new = hand.new_outbox("tg:1", "a", part=1)
            rest = NewOutbox(record=attrs.evolve(new.record, seq=first.seq), content=piece)
            commit = attrs.evolve(
                hand.commit(first.shard, new_outbox=(rest,)), rewrites=(OutboxRewrite(move, piece),)
            )
            outcome = await hand.store.commit(commit)

            assert [sent.seq for sent in outcome.outbox if isinstance(sent, Stored)] == [first.seq]
            lane = hand.store.reader.outbox_lane(first.shard, "tg:1", 0, 99)
            assert [row.record.part for row in lane] == [0, 1, second.part]
            assert [row.content.text for row in lane[:2]] == ["pie", "pie"]
            assert lane[0].record.state is OutboxState.READY
            assert hand.store.reader.history(first.shard, 0, 99)[-2].event == "resplit"

    async def check_parts_for_another_home_keep_their_order(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            shard = hand.shard("tg:1")
            emits = tuple(
                Emit(EmitNumber(shard, 1, part), hand.new_outbox("tg:22", "a", part=1_000 * part))
                for part in range(3)
            )
            commit: Commit = hand.commit(shard, emits=emits)
            await hand.store.commit(commit)
            for _, waiting in hand.store.reader.emits(shard, 99):
                await hand.store.publish(waiting)

            lane = hand.store.reader.outbox_lane(hand.shard("tg:22"), "tg:22", 0, 99)
            assert self.caps.emits == "relayed" or len({row.record.seq for row in lane}) == 1
            assert [row.record.part for row in lane] == [0, 1_000, 2_000]


async def _text(hand: Hand, key: str, parts: int) -> list[OutboxRecord]:
    new = tuple(hand.new_outbox("tg:1", key, part=1_000 * part) for part in range(parts))
    await hand.store.commit(hand.commit(new[0].record.shard, new_outbox=new))
    return [hand.outbox(row.record.id) for row in new]


def _killed(record: OutboxRecord) -> OutboxMove:
    dead = fail_send(record, dead=True)
    return attrs.evolve(dead, after=attrs.evolve(dead.after, uncertain_since_us=None), event="resolve-dead")
