"""The contract of upkeep: what is past its time, taking it away, how the store is, its end over a disk in trouble."""

from __future__ import annotations

from pathlib import Path

import attrs
import trio

from ...actors.errors import BusError, Code
from ..commands import Commit, Duplicate, InTurn, NewInbox, Outcome, StateWrite, StepWrite, Stored
from ..pruning import Ages, Past, Prune, PruneKind
from ..records import InboxRecord, InboxStatus
from ..sqlite.chain import find_break
from .opened import StoreContract, refusal_code, refused, running
from .rows import AT_US, Hand, doubt_send, finish_row, finish_send, kill_row

_END_US = AT_US + 2
"""When what the builders make has ended."""

_WIND_DOWN_S = 15.0
_TROUBLES = frozenset({Code.STORE_FULL, Code.STORE_BUSY, Code.STORE_IO})


def ages(content_us: int = _END_US, keys_us: int | None = None, history_us: int = 0) -> Ages:
    """Times up to which rows are past; keys as long as what was said unless said otherwise."""
    return Ages(
        content_us=content_us, keys_us=content_us if keys_us is None else keys_us, history_us=history_us
    )


def past(hand: Hand, kind: PruneKind, of: Ages | None = None) -> Past:
    """The first page, which holds all."""
    return hand.store.reader.past(kind, of or ages(), 0, 100)


def prune(hand: Hand, pruned: Prune, *, epoch: int | None = None) -> Commit:
    """A commit that takes it away."""
    return attrs.evolve(hand.commit(0, epoch=epoch, at_us=_END_US + 10), prune=pruned)


async def finished(hand: Hand, key: str, number: int) -> InboxRecord:
    """Accept a message and finish it."""
    record = await hand.accept(key, number, claim=True)
    await hand.move(finish_row(record))
    return record


class StoreUpkeepKit(StoreContract):
    """What a backend forgets, and what it says of itself."""

    # What is past its time.

    async def check_past_is_what_ended_by_then(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            done = await finished(hand, "tg:1", 1)
            dead = await hand.accept("tg:2", 1, claim=True)
            await hand.move(kill_row(dead))
            await hand.accept("tg:3", 1)
            await hand.accept("tg:4", 1, claim=True)
            sent = await hand.enqueue("tg:1", "sent", started=True)
            await hand.move(finish_send(sent))
            doubted = await hand.enqueue("tg:2", "doubted", started=True)
            await hand.move(doubt_send(doubted))
            await hand.enqueue("tg:3", "waiting")

            assert past(hand, "messages").prune == Prune(kind="messages", rows=(done.id,))
            assert past(hand, "sends").prune == Prune(kind="sends", rows=(sent.id,))
            for kind in ("messages", "sends"):
                early = past(hand, kind, ages(_END_US - 1))
                assert (early.count, early.prune) == (0, Prune(kind=kind))

    async def check_past_leaves_what_something_open_needs(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            message = await hand.accept("tg:1", 1, claim=True)
            early = hand.new_outbox("tg:1", "early", started=True, inbox_id=message.id)
            await hand.store.commit(hand.commit(message.shard, new_outbox=(early,), turn=InTurn(message)))
            await hand.move(finish_send(hand.outbox(early.record.id)))
            parts = tuple(hand.new_outbox("tg:2", "text", part=part, started=not part) for part in (0, 1_000))
            await hand.store.commit(hand.commit(hand.shard("tg:2"), new_outbox=parts))
            await hand.move(finish_send(hand.outbox(parts[0].record.id)))

            assert past(hand, "sends").count == 0
            await hand.move(finish_row(message))
            assert past(hand, "sends").prune.rows == (early.record.id,)

    async def check_past_is_read_in_pages(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            wanted = [(await finished(hand, f"tg:{number % 3}", number)).id for number in range(7)]
            await hand.accept("tg:9", 1)
            found: list[int] = []
            after: int | None = 0
            for _ in range(20):
                if after is None:
                    break
                page = hand.store.reader.past("messages", ages(), after, 2)
                assert page.count == len(page.prune.rows) <= 2
                assert page.after is None or page.after > after
                found += page.prune.rows
                after = page.after

            assert found == wanted

    async def check_past_of_an_event_is_by_its_topic(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            events = [hand.new_event(topic, 1) for topic in ("long", "short")]
            for event in events:
                await hand.store.publish(hand.publish(event))
            of = attrs.evolve(ages(AT_US - 1), topics=(("short", AT_US),))

            assert past(hand, "events", of).prune.rows == (events[1].id,)

    # Taking it away.

    async def check_key_is_known_for_a_time_of_its_own(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            await hand.store.commit(hand.commit(record.shard, turn=InTurn(record, (StepWrite("a", b"1"),))))
            await hand.move(finish_row(record))
            found = past(hand, "messages", ages(_END_US, keys_us=AT_US))
            assert found.prune == Prune(kind="messages", emptied=(record.id,))
            await hand.store.commit(prune(hand, found.prune))

            stored = hand.store.reader.inbox(record.id)
            assert stored is not None
            assert (stored.message.payload.text, stored.message.raw) == ("", None)
            assert hand.store.reader.step(record.id, "a") is None
            assert past(hand, "messages", ages(_END_US, keys_us=AT_US)).count == 0
            again = await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 1)))
            assert isinstance(again, Duplicate)
            assert (again.id, again.offset) == (record.id, record.offset)

            await hand.store.commit(prune(hand, past(hand, "messages").prune))
            assert hand.store.reader.inbox(record.id) is None
            anew = await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 1)))
            assert isinstance(anew, Stored)

    async def check_prune_passes_over_what_has_not_ended(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            running_row = await hand.accept("tg:1", 1, claim=True)
            waiting = await hand.accept("tg:1", 2)
            dead = await hand.accept("tg:2", 1, claim=True)
            await hand.move(kill_row(dead))
            done = await finished(hand, "tg:3", 1)
            doubted = await hand.enqueue("tg:2", "doubted", started=True)
            await hand.move(doubt_send(doubted))
            sent = await hand.enqueue("tg:3", "sent", started=True)
            await hand.move(finish_send(sent))
            kept = [hand.inbox(row.id) for row in (running_row, waiting, dead)]
            named = tuple(row.id for row in (running_row, waiting, dead, done))
            for pruned in (
                Prune(kind="messages", emptied=named[:3]),
                Prune(kind="messages", rows=(*named, 10_000)),
                Prune(kind="sends", rows=(doubted.id, sent.id)),
            ):
                await hand.store.commit(prune(hand, pruned))

            reader = hand.store.reader
            assert [reader.inbox(row_id) is None for row_id in named] == [False, False, False, True]
            assert [hand.inbox(row.id) for row in kept] == kept
            texts = [stored.message.payload.text for row in kept if (stored := reader.inbox(row.id))]
            assert texts == ["hi"] * 3
            assert reader.outbox(sent.id) is None
            assert reader.outbox(doubted.id) is not None
            assert hand.store.open_messages == 2

    async def check_prune_takes_no_offset_and_no_id_twice(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await finished(hand, "tg:1", 1)
            event = hand.new_event("order.shipped", 1)
            await hand.store.publish(hand.publish(event))
            await hand.store.commit(prune(hand, Prune(kind="messages", rows=(record.id,))))
            await hand.store.commit(prune(hand, Prune(kind="events", rows=(event.id,))))
        async with running(self.open(home)) as hand:
            later = await hand.accept("tg:1", 2)
            next_event = await hand.store.publish(hand.publish(hand.new_event("order.shipped", 2)))

            assert later.id > record.id
            assert (later.offset, later.seq) == (record.offset + 1, record.seq + 1)
            assert isinstance(next_event, Stored)
            assert next_event.offset == 1

    async def check_history_is_cut_and_its_chain_goes_on(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            for number in range(4):
                await finished(hand, "tg:1", number)
            shard = hand.shard("tg:1")
            whole = hand.store.reader.history(shard, 0, 100)
            found = past(hand, "history", ages(history_us=whole[4].at_us + 10))
            assert 0 < found.count < len(whole)
            await hand.store.commit(prune(hand, found.prune))
            left = hand.store.reader.history(shard, 0, 100)

            assert left == whole[found.count :]
        async with running(self.open(home)) as hand:
            await finished(hand, "tg:1", 9)
            last = whole[found.count - 1]
            after = hand.store.reader.history(shard, 0, 100)
            assert len(after) == len(left) + 2
            assert find_break(after, before=last.h, hseq=last.hseq) is None

    async def check_prune_under_an_older_lease_takes_nothing(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await finished(hand, "tg:1", 1)
            with refused(Code.FENCED):
                pruned = Prune(kind="messages", rows=(record.id,))
                await hand.store.commit(prune(hand, pruned, epoch=hand.store.epochs[0] - 1))

            assert hand.inbox(record.id).status is InboxStatus.DONE

    # How the store is.

    async def check_condition_of_a_store_that_writes_is_well(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            for number in range(20):
                await finished(hand, "tg:1", number)
                condition = hand.store.condition
                assert (condition.code, condition.waiting) == (None, 0)
            assert hand.store.condition.log.pinned_s == 0
            assert hand.store.condition.log.size_bytes >= 0

    async def check_wind_down_stores_on_where_the_store_can_write(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            hand.store.wind_down()
            hand.store.wind_down()
            await hand.move(finish_row(record))
            await hand.accept("tg:1", 2)
        async with running(self.open(home)) as hand:
            assert hand.store.info.clean
            counts = hand.store.reader.count_inbox()
            assert (counts[InboxStatus.DONE], counts[InboxStatus.QUEUED]) == (1, 1)

    async def check_condition_says_what_keeps_commits_waiting(self, home: Path) -> None:
        """Only with `trouble`: a commit waits for its end, and is stored then."""
        if self.trouble is None:
            return
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            told: list[Outcome] = []
            ended = trio.Event()

            def settle(outcome: Outcome) -> None:
                told.append(outcome)
                ended.set()

            with self.trouble(home):
                hand.store.submit(_grown(hand, record), settle)
                long = hand.new_inbox("tg:2", 1, text="x" * 200_000)
                assert await _code_of(hand, long) in {Code.STORE_FULL, Code.STORE_BUSY}
                condition = hand.store.condition
                assert told == []
                assert condition.code in {Code.STORE_FULL, Code.STORE_BUSY}
                assert condition.waiting == 1
                assert hand.inbox(record.id) == record
            with trio.move_on_after(_WIND_DOWN_S):
                await hand.accept("tg:3", 1)
                await ended.wait()

            assert hand.inbox(record.id).status is InboxStatus.DONE
            assert hand.store.condition.code is None
            assert hand.store.condition.waiting == 0

    async def check_wind_down_refuses_what_the_store_does_not_take(self, home: Path) -> None:
        """Only with `trouble`: whoever waits is told within ten seconds, and what comes after it is refused too."""
        if self.trouble is None:
            return
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            told: list[Outcome] = []
            ended = trio.Event()

            def settle(outcome: Outcome) -> None:
                told.append(outcome)
                ended.set()

            with self.trouble(home):
                hand.store.submit(_grown(hand, record), settle)
                hand.store.wind_down()
                with trio.move_on_after(_WIND_DOWN_S):
                    await ended.wait()
                assert told, "still waiting"
            code = refusal_code(told[0])
            assert code in _TROUBLES
            assert await _code_of(hand, hand.new_inbox("tg:1", 2)) in _TROUBLES
        if code is not Code.STORE_IO:
            async with running(self.open(home)) as hand:
                assert hand.store.reader.claimed() == [record]
                assert sum(hand.store.reader.count_inbox().values()) == 1


async def _code_of(hand: Hand, row: NewInbox) -> Code | None:
    """The code that a publish is refused with; None if it is stored."""
    try:
        await hand.store.publish(hand.publish(row))
    except BusError as error:
        return error.code
    return None


def _grown(hand: Hand, record: InboxRecord) -> Commit:
    """A commit that needs room."""
    state = StateWrite(record.conversation_key, bytes(200_000), 1)
    return hand.commit(record.shard, inbox=(finish_row(record),), state=(state,))


__all__ = ["StoreUpkeepKit"]
