"""The contract of a store's reads, and the proof of its capabilities."""

from __future__ import annotations

from pathlib import Path

import attrs

from ..commands import (
    InboxMove,
    OutboxMove,
)
from ..records import InboxStatus, OutboxState
from .opened import StoreContract, running
from .rows import (
    AT_US,
    claim_row,
    doubt_send,
    fail_row,
    fail_send,
    finish_row,
    finish_send,
    kill_row,
    requeue_row,
)


class StoreReadsKit(StoreContract):
    """What a backend finds again."""

    # Reads.

    async def check_lanes_are_found_and_paged(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            shard = hand.shard("tg:1")
            keys = sorted(key for key in (f"tg:{chat}" for chat in range(200)) if hand.shard(key) == shard)
            assert len(keys) > 5
            for key in keys:
                for number in range(3):
                    await hand.accept(key, number)
                    await hand.enqueue(key, f"{key}-{number}")
            lost = await hand.accept("tg:0", 1)
            assert lost.shard != shard
            reader = hand.store.reader

            found = [reader.next_inbox_key(shard, "")]
            while found[-1] is not None:
                found.append(reader.next_inbox_key(shard, found[-1]))
            assert found[:-1] == keys
            page = reader.outbox_page(shard, "", 99)
            assert [row.record.conversation_key for row in page] == [key for key in keys for _ in range(3)]
            assert [row.record.seq for row in page[:3]] == sorted(row.record.seq for row in page[:3])
            assert reader.outbox_page(shard, "", 4) == page[:4]
            assert reader.outbox_page(shard, keys[0], 99) == page[3:]
            lane = reader.inbox_lane(shard, keys[2], 0, 99)
            assert [row.record.seq for row in lane] == sorted(row.record.seq for row in lane)
            assert len(lane) == 3
            assert reader.inbox_lane(shard, keys[2], 0, 2) == lane[:2]
            assert reader.inbox_lane(shard, keys[2], lane[0].record.seq, 99) == lane[1:]
            sends = reader.outbox_lane(shard, keys[2], 0, 99)
            assert reader.outbox_lane(shard, keys[2], sends[1].record.seq, 99) == sends[2:]

    async def check_lanes_hold_open_rows_alone(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            done, dead, failed, running_ = [await hand.accept("tg:1", n, claim=True) for n in range(4)]
            queued = await hand.accept("tg:1", 4)
            for status in (InboxStatus.PARKED, InboxStatus.REFUSED):
                await hand.store.publish(
                    hand.publish(hand.new_inbox("tg:1", len(status) + 10, status=status))
                )
            await hand.move(finish_row(done))
            await hand.move(kill_row(dead))
            await hand.move(fail_row(failed))
            reader, shard = hand.store.reader, queued.shard

            lane = [row.record.id for row in reader.inbox_lane(shard, "tg:1", 0, 99)]
            assert lane == [failed.id, running_.id, queued.id]
            assert [record.id for record in reader.claimed()] == [running_.id]
            await hand.purge_message(await hand.accept("tg:1", 5, claim=True))
            counts = reader.count_inbox()
            assert counts == dict.fromkeys(InboxStatus, 1)
            for status, count in counts.items():
                rows = reader.list_inbox(status=status, key=None, offset=0, limit=9)
                assert [row.record.status for row in rows] == [status] * count
                assert reader.list_inbox(status=status, key="tg:1", offset=0, limit=9) == rows
                assert reader.list_inbox(status=status, key="tg:2", offset=0, limit=9) == []
            everything = reader.list_inbox(status=None, key=None, offset=0, limit=99)
            assert [row.record.id for row in everything] == sorted(
                (row.record.id for row in everything), reverse=True
            )
            assert reader.list_inbox(status=None, key=None, offset=2, limit=2) == everything[2:4]
            assert reader.count_retried() == (1, 0)

    async def check_rows_of_a_lane_are_counted(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            reader, shard = hand.store.reader, hand.shard("tg:1")
            assert reader.count_inbox_lane(shard, "tg:1", 7) == (0, 7)
            records = [await hand.accept("tg:1", number, claim=True) for number in range(5)]
            await hand.accept("tg:2", 1)
            await hand.move(fail_row(records[1]))
            await hand.move(finish_row(records[2]))
            last = records[4].seq

            assert reader.count_inbox_lane(shard, "tg:1", 0) == (4, last)
            assert reader.count_inbox_lane(shard, "tg:1", records[1].seq) == (2, last)
            assert reader.count_inbox_lane(shard, "tg:1", last) == (0, last)

    async def check_keys_of_messages_are_known(self, home: Path) -> None:
        """Also of one that has ended."""
        async with running(self.open(home)) as hand:
            reader, new = hand.store.reader, hand.new_inbox("tg:1", 0)
            assert not reader.has_inbox(new.dedupe_key)
            await hand.store.publish(hand.publish(new, claim=True))
            assert reader.has_inbox(new.dedupe_key)
            assert not reader.has_inbox(hand.new_inbox("tg:1", 1).dedupe_key)
            await hand.move(finish_row(hand.inbox(new.record.id)))
            assert reader.has_inbox(new.dedupe_key)

    async def check_open_messages_are_counted(self, home: Path) -> None:
        """Over repeats, refusals, every end, and an opening."""
        async with running(self.open(home)) as hand:
            assert hand.store.open_messages == 0
            done, dead, failed = [await hand.accept("tg:1", number, claim=True) for number in range(3)]
            repeat = hand.publish(hand.new_inbox("tg:2", 1))
            for _ in range(2):
                await hand.store.publish(repeat)
            for number, status in enumerate((InboxStatus.PARKED, InboxStatus.REFUSED)):
                await hand.store.publish(hand.publish(hand.new_inbox("tg:3", number, status=status)))
            assert hand.store.open_messages == 4
            await hand.move(finish_row(done))
            await hand.move(kill_row(dead))
            await hand.move(fail_row(failed))
            assert hand.store.open_messages == 2
            await hand.move(claim_row(hand.inbox(failed.id)))
            assert hand.store.open_messages == 2
            await hand.move(requeue_row(hand.inbox(dead.id)))
            assert hand.store.open_messages == 3
        async with running(self.open(home)) as hand:
            assert hand.store.open_messages == 3

    async def check_crashed_rows_are_found(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            for crashes in range(4):
                record = await hand.accept("tg:1", crashes, claim=True)
                after = attrs.evolve(record, status=InboxStatus.QUEUED, crashes=crashes)
                await hand.move(InboxMove(record, after, "crash"))
            again = hand.store.reader.crashed()[1]
            assert [record.crashes for record in hand.store.reader.crashed()] == [2, 3]
            await hand.move(claim_row(again))

            assert [record.crashes for record in hand.store.reader.crashed()] == [2]

    async def check_sends_are_found_by_state(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            rows = {state: await hand.enqueue("tg:1", state, started=True) for state in OutboxState}
            await hand.move(finish_send(rows[OutboxState.SENT]))
            await hand.move(doubt_send(rows[OutboxState.UNCERTAIN]))
            await hand.move(fail_send(rows[OutboxState.FAILED]))
            await hand.move(fail_send(rows[OutboxState.DEAD], dead=True))
            await hand.purge_send(rows[OutboxState.PURGED])
            ready = rows[OutboxState.READY]
            released = attrs.evolve(ready, in_flight=False, attempts=0)
            await hand.move(OutboxMove(ready, released, "release"))
            reader, shard = hand.store.reader, ready.shard

            lane = {row.record.state for row in reader.outbox_lane(shard, "tg:1", 0, 99)}
            assert lane == set(OutboxState) - {OutboxState.SENT, OutboxState.DEAD, OutboxState.PURGED}
            assert [row.record.state for row in reader.flying()] == [OutboxState.FLYING]
            doubtful = rows[OutboxState.UNCERTAIN].id
            assert [row.record.id for row in reader.uncertain("telegram", 0, 9)] == [doubtful]
            assert reader.uncertain("telegram", doubtful, 9) == []
            assert reader.uncertain("slack", 0, 9) == []
            assert reader.count_outbox() == dict.fromkeys(OutboxState, 1)
            for state, row in rows.items():
                found = reader.list_outbox(state=state, key=None, offset=0, limit=9)
                assert [(stored.record.id, stored.record.state) for stored in found] == [(row.id, state)]
                assert reader.list_outbox(state=state, key="tg:1", offset=0, limit=9) == found
                assert reader.list_outbox(state=state, key="tg:2", offset=0, limit=9) == []
            everything = reader.list_outbox(state=None, key=None, offset=0, limit=99)
            assert [row.record.id for row in everything] == sorted(
                (row.id for row in rows.values()), reverse=True
            )
            assert reader.count_retried() == (0, 1)

    async def check_dead_rows_are_listed_by_time_of_death(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            records = [await hand.accept("tg:1", number, claim=True) for number in range(3)]
            for record, at_us in zip(records, (AT_US + 30, AT_US + 50, AT_US + 30), strict=True):
                await hand.move(kill_row(record, at_us=at_us))

            dead = hand.store.reader.list_inbox(status=InboxStatus.DEAD, key=None, offset=0, limit=9)
            assert [row.record.id for row in dead] == [records[1].id, records[2].id, records[0].id]

    async def check_every_field_of_a_row_is_kept(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            failed = fail_row(record, text="torn \ud800 text")
            await hand.move(failed)
            claim = claim_row(hand.inbox(record.id), epoch=4)
            await hand.move(claim)
            dead = kill_row(hand.inbox(record.id))
            await hand.move(dead)

            assert hand.inbox(record.id) == dead.after
            assert dead.after.errors[0].text == "torn \ud800 text"
            assert hand.store.reader.inbox(10_000) is None
            assert hand.store.reader.outbox(10_000) is None
            sent = await hand.enqueue("tg:1", "a", started=True)
            failed_send = fail_send(sent)
            await hand.move(failed_send)
            assert hand.outbox(sent.id) == failed_send.after

    async def check_raw_bytes_of_a_message_are_kept(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1)
            stored = hand.store.reader.inbox(record.id)

            assert stored is not None
            assert stored.message.raw == b"{}"
