"""The contract of control records: moved by the very commit that carries them out, while they wait, and only then."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import apsw
import attrs
import pytest

from shardline.actors.errors import Code
from shardline.storage.commands import Committed, ControlDone, ControlPart, ControlStep
from shardline.storage.journal import Journal
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import ControlStatus, InboxRecord, InboxStatus, StoredControl
from shardline.storage.sqlite import open_sqlite
from tests.kits.store_rows import AT_US, Hand, kill_row, requeue_row
from tests.kits.stores import refusal_code, running, submit_all
from tests.kits.words import refused

Kind = Literal["thread", "inline", "memory"]

STEP = ControlStep(1, '{"requeued": ["in-1"]}')
DONE = ControlDone(1, '{"requeued": ["in-1", "in-2"]}')


@attrs.frozen
class Home:
    """A store that is opened again and again, and the way by which somebody else leaves records in it."""

    path: Path
    kind: Kind
    memory: MemoryDatabase = attrs.Factory(MemoryDatabase)

    def open(self) -> Journal:
        if self.kind == "memory":
            return open_memory(database=self.memory)
        if self.kind == "inline":
            return open_sqlite(self.path, mode="inline", durability="normal", emits="relayed")
        return open_sqlite(self.path)

    def leave(self, *names: str) -> None:
        """Leave waiting records, number 1 on."""
        with self._connection() as connection:
            for name in names:
                connection.execute(
                    "INSERT INTO control (id, verb, args, actor, created_at, status)"
                    " VALUES (?, 'requeue', '{}', 'somebody', 1, 'waiting')",
                    (name,),
                )

    @contextmanager
    def _connection(self) -> Generator[apsw.Connection]:
        if self.kind == "memory":
            yield self.memory.source.connect()
            return
        connection = apsw.Connection(str(self.path))
        try:
            yield connection
        finally:
            connection.close()


@pytest.fixture(params=["thread", "inline", "memory"])
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Home:
    return Home(tmp_path / "bot.db", request.param)


async def test_records_wait_in_the_order_they_were_left(home: Home) -> None:
    async with running(home.open()) as hand:
        home.leave("z", "a", "m")
        reader = hand.store.reader
        assert names(reader.waiting_controls(9)) == ["z", "a", "m"]
        assert names(reader.waiting_controls(2)) == ["z", "a"]

        await hand.store.commit(hand.commit(0, control=ControlDone(2, "{}")))
        await hand.store.commit(hand.commit(0, control=ControlStep(1, '{"n": 1}')))
        assert names(reader.waiting_controls(9)) == ["z", "m"]
        assert reader.control("nobody") is None


async def test_a_step_and_the_end_are_stored_with_what_they_tell_of(home: Home) -> None:
    async with running(home.open()) as hand:
        first, second = await dead_row(hand, "tg:1"), await dead_row(hand, "tg:2")
        home.leave("c1")

        await requeue(hand, first, STEP)
        assert stored(hand) == (ControlStatus.WAITING, None, STEP.progress, None)
        await requeue(hand, second, DONE)
        assert stored(hand) == (ControlStatus.DONE, None, DONE.result, AT_US)
        assert {hand.inbox(row.id).generation for row in (first, second)} == {1}


async def test_a_record_that_does_not_wait_refuses_the_whole_commit(home: Home) -> None:
    async with running(home.open()) as hand:
        row = await dead_row(hand, "tg:1")
        for part in (STEP, DONE):
            with refused(Code.STALE_CLAIM):
                await requeue(hand, row, part)
        home.leave("c1")
        await hand.store.commit(hand.commit(0, control=ControlDone(1, "{}", "NOT_FOUND")))
        for part in (STEP, DONE):
            with refused(Code.STALE_CLAIM):
                await requeue(hand, row, part)

        assert stored(hand) == (ControlStatus.REFUSED, "NOT_FOUND", "{}", AT_US)
        assert hand.inbox(row.id) == row


async def test_a_refused_commit_moves_no_record(home: Home) -> None:
    async with running(home.open()) as hand:
        row = await dead_row(hand, "tg:1")
        home.leave("c1")
        stale = attrs.evolve(row, claim=row.claim + 1)
        for part in (STEP, DONE):
            with refused(Code.STALE_CLAIM):
                await requeue(hand, stale, part)
        old = attrs.evolve(hand.commit(row.shard, control=DONE), epoch=hand.store.epochs[row.shard] - 1)
        with refused(Code.FENCED):
            await hand.store.commit(old)

        assert stored(hand) == (ControlStatus.WAITING, None, None, None)


async def test_of_two_ends_in_one_batch_the_first_counts(home: Home) -> None:
    async with running(home.open()) as hand:
        first, second = await dead_row(hand, "tg:1"), await dead_row(hand, "tg:2")
        home.leave("c1")
        outcomes = await submit_all(
            hand,
            hand.commit(first.shard, inbox=(requeue_row(first),), control=DONE),
            hand.commit(second.shard, inbox=(requeue_row(second),), control=DONE),
        )

        assert isinstance(outcomes[0], Committed)
        assert refusal_code(outcomes[1]) is Code.STALE_CLAIM
        assert hand.inbox(first.id).generation == 1
        assert hand.inbox(second.id) == second


async def test_a_step_outlives_the_opening(home: Home) -> None:
    async with running(home.open()) as hand:
        row = await dead_row(hand, "tg:1")
        home.leave("c1")
        await requeue(hand, row, STEP)
    async with running(home.open()) as hand:
        assert stored(hand) == (ControlStatus.WAITING, None, STEP.progress, None)


async def dead_row(hand: Hand, key: str) -> InboxRecord:
    """A message that died."""
    record = await hand.accept(key, 1, claim=True)
    await hand.move(kill_row(record))
    dead = hand.inbox(record.id)
    assert dead.status is InboxStatus.DEAD
    return dead


async def requeue(hand: Hand, row: InboxRecord, control: ControlPart) -> None:
    """Requeue a row, and move a record in the same commit."""
    await hand.store.commit(hand.commit(row.shard, inbox=(requeue_row(row),), control=control))


def stored(hand: Hand) -> tuple[ControlStatus, str | None, str | None, int | None]:
    """How c1 stands."""
    found = hand.store.reader.control("c1")
    assert found is not None
    return found.status, found.code, found.result, found.done_at_us


def names(found: list[StoredControl]) -> list[str]:
    """Their ids."""
    return [one.id for one in found]
