"""The contract of timers: set, found when due, and gone or moved on in the commit that stores their arrival."""

from __future__ import annotations

from pathlib import Path

import attrs

from ...actors.errors import Code
from ..commands import (
    Committed,
    DropTimer,
    Duplicate,
    Emit,
    EmitNumber,
    NewInbox,
    NewRow,
    NewTimer,
    Stored,
    TimerMove,
)
from ..records import TimerContent, TimerRecord
from .opened import StoreContract, refused, running
from .rows import AT_US, Hand, finish_row, make_chat

_FIRST = "timer-1-1-1-0"
_OTHER = "timer-1-1-1-1"


class StoreTimersKit(StoreContract):
    """What a backend keeps and finds of timers."""

    # Timers.

    async def check_timers_are_found_by_due_time(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            reader = hand.store.reader
            assert reader.next_timer_us() is None
            # Of several shards, not in the order of their times; those of one time not in the order of their names.
            dues = {f"timer-1-1-{12 - n}-0": AT_US + n * 7 % 5 * 2 for n in range(10)}
            for number, (name, due_us) in enumerate(dues.items()):
                await hand.set_timer(hand.new_timer(name, f"tg:{number}", due_us))
            ordered = sorted(dues, key=dues.__getitem__)

            assert reader.count_timers() == 10
            assert reader.next_timer_us() == AT_US
            assert [timer.record.id for timer in reader.due_timers(AT_US + 4, 99)] == ordered[:6]
            assert [timer.record.id for timer in reader.due_timers(AT_US + 9, 3)] == ordered[:3]
            assert reader.due_timers(AT_US - 1, 99) == []
            found = reader.list_timers(key=None, topic=None, offset=2, limit=4)
            assert [timer.record.id for timer in found] == ordered[2:6]
            [third] = reader.list_timers(key="tg:3", topic=None, offset=0, limit=99)
            assert third == reader.timer("timer-1-1-9-0")
            assert reader.list_timers(key=None, topic="dm.reply.v1", offset=0, limit=99) == []

    async def check_every_field_of_a_timer_is_kept(self, home: Path) -> None:
        record = TimerRecord(
            id="every-report",
            shard=3,
            kind="event",
            topic="order.shipped",
            partition=19,
            conversation_key="a key",
            due_at_us=AT_US + 5,
            wait_us=4,
            rule="30 2 * * *",
            zone="Europe/Berlin",
            created_at_us=AT_US + 1,
        )
        content = TimerContent(
            payload={"n": [1, 2.5, None, b"\0", "é"]},
            headers={"a": "b"},
            correlation_id="c",
            causation_id="d",
            hops=3,
        )
        async with running(self.open(home)) as hand:
            await hand.set_timer(NewTimer(record=record, content=content))
            await hand.set_timer(hand.new_timer(_FIRST, "tg:1", AT_US))
        async with running(self.open(home)) as hand:
            [stored] = hand.store.reader.declared_timers()
            assert (stored.record, stored.content) == (record, content)

    async def check_timer_that_is_set_stays_unless_replaced(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            await hand.set_timer(hand.new_timer(_FIRST, "tg:1", AT_US + 1))
            await hand.set_timer(hand.new_timer(_FIRST, "tg:1", AT_US + 2))
            assert hand.due() == [(_FIRST, AT_US + 1)]
            await hand.set_timer(hand.new_timer(_FIRST, "tg:1", AT_US + 3, replaces=True))
            assert hand.due() == [(_FIRST, AT_US + 3)]

    async def check_timer_is_taken_back(self, home: Path) -> None:
        """Also by a part of the same batch; one that is not there is passed over."""
        async with running(self.open(home)) as hand:
            shard = hand.shard("tg:1")
            kept = hand.new_timer(_OTHER, "tg:1", AT_US)
            await hand.set_timer(hand.new_timer(_FIRST, "tg:1", AT_US), kept)
            await hand.store.commit(
                hand.commit(shard, timers=(DropTimer(_FIRST, shard), DropTimer(_FIRST, shard)))
            )
            assert hand.due() == [(_OTHER, AT_US)]
            passing = hand.new_timer("timer-1-1-1-2", "tg:1", AT_US)
            await hand.set_timer(passing, DropTimer(passing.record.id, shard))
            assert hand.due() == [(_OTHER, AT_US)]

    async def check_timer_leaves_in_the_commit_of_its_arrival(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            once, again = hand.new_timer(_FIRST, "tg:1", AT_US), hand.new_timer(_OTHER, "tg:1", AT_US)
            await hand.set_timer(once, again)
            moved = attrs.evolve(again.record, due_at_us=AT_US + 60, wait_us=60)
            arrivals = (_arrival(hand, once), _arrival(hand, again))
            outcome = await hand.store.commit(
                hand.commit(
                    once.record.shard,
                    timers=(TimerMove(once.record, None), TimerMove(again.record, moved)),
                    arrivals=arrivals,
                )
            )

            assert [stored.id for stored in outcome.arrivals] == [row.record.id for row in arrivals]
            assert [type(stored) for stored in outcome.arrivals] == [Stored, Stored]
            assert [hand.inbox(row.record.id).claim for row in arrivals] == [0, 0]
            lane = hand.store.reader.inbox_lane(once.record.shard, "tg:1", 0, 99)
            assert [row.record.id for row in lane] == [row.record.id for row in arrivals]
            assert hand.due() == [(_OTHER, AT_US + 60)]

    async def check_timer_that_left_its_time_refuses_the_whole_commit(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            gone, kept = hand.new_timer(_FIRST, "tg:1", AT_US), hand.new_timer(_OTHER, "tg:1", AT_US)
            await hand.set_timer(kept)
            arrivals = (_arrival(hand, kept), _arrival(hand, gone))
            ended = (TimerMove(kept.record, None), TimerMove(gone.record, None))
            with refused(Code.STALE_CLAIM):
                await hand.store.commit(hand.commit(kept.record.shard, timers=ended, arrivals=arrivals))
            later = attrs.evolve(kept.record, due_at_us=AT_US + 1)
            with refused(Code.STALE_CLAIM):
                await hand.store.commit(
                    hand.commit(kept.record.shard, timers=(TimerMove(later, None),), arrivals=arrivals)
                )

            assert hand.due() == [(_OTHER, AT_US)]
            assert hand.store.reader.inbox(arrivals[0].record.id) is None

    async def check_arrival_comes_once(self, home: Path) -> None:
        """What has arrived for this timer and time is a duplicate, and the timer leaves all the same."""
        async with running(self.open(home)) as hand:
            timer = hand.new_timer(_FIRST, "tg:1", AT_US)
            outcomes: list[Committed] = []
            for _ in range(2):
                await hand.set_timer(timer)
                outcomes.append(
                    await hand.store.commit(
                        hand.commit(
                            timer.record.shard,
                            timers=(TimerMove(timer.record, None),),
                            arrivals=(_arrival(hand, timer),),
                        )
                    )
                )

            [first], [second] = outcomes[0].arrivals, outcomes[1].arrivals
            assert isinstance(first, Stored)
            assert isinstance(second, Duplicate)
            assert second.id == first.id
            assert hand.due() == []

    async def check_timer_of_another_shard_is_refused(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            timer = hand.new_timer(_FIRST, "tg:1", AT_US)
            other = (timer.record.shard + 1) % hand.store.info.shard_count
            with refused(Code.IDENTITY_MISMATCH):
                await hand.store.commit(hand.commit(other, timers=(timer,)))
            with refused(Code.IDENTITY_MISMATCH):
                await hand.store.commit(hand.commit(other, arrivals=(_arrival(hand, timer),)))
            assert hand.due() == []

    async def check_pauses_of_the_future_are_found(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            for number, wait_us in enumerate((None, 10, 99, 100, 101)):
                name = f"timer-1-1-1-{number}"
                await hand.set_timer(hand.new_timer(name, "tg:1", AT_US + 100, wait_us=wait_us))

            found = hand.store.reader.future_timers(AT_US, 99)
            assert sorted(timer.record.id for timer in found) == [_OTHER, "timer-1-1-1-2"]
            assert len(hand.store.reader.future_timers(AT_US, 1)) == 1

    async def check_emitted_timers_reach_their_home(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            there = next(key for key in map("tg:{}".format, range(2, 99)) if hand.shard(key) != record.shard)
            timer, passing = (hand.new_timer(name, there, AT_US) for name in (_FIRST, _OTHER))
            rows: tuple[NewRow, ...] = (timer, passing, DropTimer(_OTHER, hand.shard(there)))
            emits = tuple(Emit(EmitNumber(record.shard, record.seq, n), row) for n, row in enumerate(rows))
            await hand.store.commit(hand.commit(record.shard, inbox=(finish_row(record),), emits=emits))
            for _, part in hand.store.reader.emits(record.shard, 99):
                await hand.store.publish(part)

            stored = hand.store.reader.timer(_FIRST)
            assert stored is not None
            assert (stored.record, stored.content) == (timer.record, timer.content)
            assert hand.due() == [(_FIRST, AT_US)]


def _arrival(hand: Hand, timer: NewTimer) -> NewInbox:
    key = timer.record.conversation_key
    assert key is not None
    new = hand.new_inbox(key, 0)
    return attrs.evolve(
        new,
        message=make_chat(key, 0, "hi"),
        dedupe_key=f"{timer.record.id}:{timer.record.due_at_us}",
    )
