"""The contract of a turn that goes on: results of its steps, sends before its end, and the fence round both."""

from __future__ import annotations

from pathlib import Path

import attrs

from ...actors.errors import Code
from ..commands import Commit, Committed, InTurn, NewOutbox, StepWrite
from ..records import InboxRecord, InboxStatus
from .opened import StoreContract, refusal_code, refused, running, submit_all
from .rows import Hand, claim_row, finish_row, kill_row, requeue_row

_STEP_BYTES = 256 * 1024


def keep(hand: Hand, record: InboxRecord, *steps: StepWrite, shard: int | None = None) -> Commit:
    """A commit that keeps results with a running message."""
    return hand.commit(record.shard if shard is None else shard, turn=InTurn(record, steps))


def say(hand: Hand, record: InboxRecord, new: NewOutbox) -> Commit:
    """A commit of a send before the turn's end."""
    return hand.commit(record.shard, new_outbox=(new,), turn=InTurn(record))


class StoreStepsKit(StoreContract):
    """What a backend keeps of a turn that has not ended."""

    async def check_step_is_kept_with_its_message(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            other = await hand.accept("tg:2", 1, claim=True)
            outcome = await hand.store.commit(
                keep(hand, record, StepWrite("a", b"1"), StepWrite("b \u00fc", b""))
            )
            await hand.store.commit(keep(hand, other, StepWrite("a", b"2")))

            reader = hand.store.reader
            assert outcome == Committed()
            assert [reader.step(record.id, name) for name in ("a", "b \u00fc", "c")] == [b"1", b"", None]
            assert reader.step(other.id, "a") == b"2"
            assert hand.inbox(record.id) == record

    async def check_first_result_of_a_step_stays(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            for number, together in enumerate((True, False)):
                record = await hand.accept(f"tg:{number}", 1, claim=True)
                first = keep(hand, record, StepWrite("a", b"1"))
                second = keep(hand, record, StepWrite("a", b"2"), StepWrite("b", b"2"))
                if together:
                    outcomes = await submit_all(hand, first, second)
                    assert refusal_code(outcomes[1]) is Code.STALE_CLAIM
                else:
                    await hand.store.commit(first)
                    with refused(Code.STALE_CLAIM):
                        await hand.store.commit(second)

                assert hand.store.reader.step(record.id, "a") == b"1"
                assert hand.store.reader.step(record.id, "b") is None

    async def check_step_survives_what_befalls_its_message(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            await hand.store.commit(keep(hand, record, StepWrite("a", b"1")))
            dead = kill_row(record)
            await hand.move(dead)
            await hand.move(requeue_row(dead.after))
            again = claim_row(hand.inbox(record.id))
            await hand.move(again)

            assert hand.store.reader.step(record.id, "a") == b"1"
            with refused(Code.STALE_CLAIM):
                await hand.store.commit(keep(hand, again.after, StepWrite("a", b"2")))
            await hand.store.commit(keep(hand, again.after, StepWrite("b", b"2")))
        async with running(self.open(home)) as hand:
            assert [hand.store.reader.step(record.id, name) for name in "ab"] == [b"1", b"2"]

    async def check_step_goes_with_a_purge(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            records = [await hand.accept(f"tg:{number}", 1, claim=True) for number in range(2)]
            for record in records:
                await hand.store.commit(keep(hand, record, StepWrite("a", b"1")))
            await hand.purge_message(records[0])

            assert [hand.store.reader.step(record.id, "a") for record in records] == [None, b"1"]

    async def check_turn_must_run_under_the_claim_it_names(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            waiting = await hand.accept("tg:1", 2)
            done = await hand.accept("tg:1", 3, claim=True)
            await hand.move(finish_row(done))
            history = hand.store.reader.history(record.shard, 0, 99)
            for wrong in (
                attrs.evolve(record, claim=0),
                attrs.evolve(record, claim=2),
                attrs.evolve(record, id=record.id + 100),
                waiting,
                attrs.evolve(waiting, status=InboxStatus.RUNNING, claim=1),
                done,
            ):
                with refused(Code.STALE_CLAIM):
                    await hand.store.commit(keep(hand, wrong, StepWrite("a", b"1")))
                with refused(Code.STALE_CLAIM):
                    await hand.store.commit(say(hand, wrong, hand.new_outbox("tg:1", "note")))
                assert hand.store.reader.step(wrong.id, "a") is None

            assert hand.store.reader.find_outbox("telegram", "note", 0) is None
            assert hand.store.reader.history(record.shard, 0, 99) == history
            with refused(Code.IDENTITY_MISMATCH):
                other = (record.shard + 1) % hand.store.info.shard_count
                await hand.store.commit(keep(hand, record, StepWrite("a", b"1"), shard=other))

    async def check_send_before_the_end_of_its_turn_is_stored(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            new = hand.new_outbox("tg:1", "note", started=True, inbox_id=record.id)
            outcome = await hand.store.commit(say(hand, record, new))

            assert [stored.id for stored in outcome.outbox] == [new.record.id]
            assert hand.outbox(new.record.id).in_flight
            assert hand.inbox(record.id) == record

    async def check_end_of_a_turn_fences_what_comes_behind_it_in_the_same_batch(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            first = await hand.accept("tg:1", 1, claim=True)
            second = await hand.accept("tg:2", 1, claim=True)
            outcomes = await submit_all(
                hand,
                hand.commit(first.shard, inbox=(finish_row(first),)),
                keep(hand, first, StepWrite("late", b"1")),
                keep(hand, second, StepWrite("early", b"1")),
                hand.commit(second.shard, inbox=(finish_row(second),)),
                say(hand, second, hand.new_outbox("tg:2", "note")),
            )

            assert [outcomes[0], outcomes[2], outcomes[3]] == [Committed()] * 3
            assert [refusal_code(outcomes[place]) for place in (1, 4)] == [Code.STALE_CLAIM] * 2
            assert hand.store.reader.step(first.id, "late") is None
            assert hand.store.reader.step(second.id, "early") == b"1"
            assert hand.store.reader.find_outbox("telegram", "note", 0) is None

    async def check_step_has_a_limit(self, home: Path) -> None:
        async with running(self.open(home)) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            longest = StepWrite("longest", bytes(_STEP_BYTES))
            outcomes = await submit_all(
                hand,
                keep(hand, record, StepWrite("long", bytes(_STEP_BYTES + 1))),
                keep(hand, record, longest),
            )

            assert refusal_code(outcomes[0]) is Code.TOO_LARGE
            assert outcomes[1] == Committed()
            assert hand.store.reader.step(record.id, "longest") == longest.value
