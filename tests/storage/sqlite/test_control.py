"""A control record ends in the very commit that carries it out, once."""

from __future__ import annotations

from pathlib import Path

import apsw
import attrs
import pytest

from shardline.actors.errors import Code
from shardline.storage.commands import ControlDone
from shardline.storage.records import ControlStatus, InboxStatus, StoredControl
from shardline.storage.sqlite import control, open_sqlite
from shardline.storage.sqlite.control import ControlBox
from tests.kits.store_rows import AT_US, kill_row, requeue_row
from tests.kits.stores import running
from tests.kits.words import refused

ASKED = StoredControl(id="c1", verb="requeue", args='{"rows": ["in-1"]}', actor="me", created_at_us=AT_US)
DONE = ControlDone(1, '{"requeued": 1}')


async def test_a_commit_ends_its_record_or_is_refused_whole(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path)) as hand:
        record = await hand.accept("tg:1", 1, claim=True)
        await hand.move(kill_row(record))
        dead = hand.inbox(record.id)
        requeue = hand.commit(dead.shard, inbox=(requeue_row(dead),), control=DONE)
        with refused(Code.STALE_CLAIM):
            await hand.store.commit(requeue)
        assert hand.inbox(record.id).status is InboxStatus.DEAD

        with ControlBox(path) as box:
            assert box.leave([ASKED])[0].status is ControlStatus.WAITING
            assert box.leave([ASKED]) == [box.read("c1")]
            with refused(Code.IDENTITY_MISMATCH):
                box.leave([attrs.evolve(ASKED, args="{}")])
            assert hand.store.reader.waiting_controls(9) == [attrs.evolve(ASKED, number=1)]

            await hand.store.commit(requeue)
            assert box.read("c1").status is ControlStatus.DONE
            assert box.read("c1").result == DONE.result
        assert hand.inbox(record.id).generation == 1
        assert hand.store.reader.waiting_controls(9) == []

        again = hand.inbox(record.id)
        with refused(Code.STALE_CLAIM):
            await hand.store.commit(hand.commit(again.shard, control=DONE))


async def test_a_refused_neighbour_does_not_end_it(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path)) as hand:
        record = await hand.accept("tg:1", 1, claim=True)
        await hand.move(kill_row(record))
        dead = hand.inbox(record.id)
        with ControlBox(path) as box:
            box.leave([ASKED])
            stale = attrs.evolve(dead, claim=dead.claim + 1)
            with refused(Code.STALE_CLAIM):
                await hand.store.commit(hand.commit(dead.shard, inbox=(requeue_row(stale),), control=DONE))

            assert box.read("c1").status is ControlStatus.WAITING


async def test_a_record_waits_for_the_lock_and_is_refused_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "_BUSY_S", 0.05)
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path)):
        pass
    other = apsw.Connection(str(path))
    with ControlBox(path) as box:
        for _ in range(2):
            other.execute("BEGIN IMMEDIATE")
            with refused(Code.STORE_BUSY):
                box.leave([ASKED])
            other.execute("COMMIT")
        assert box.leave([ASKED])[0].status is ControlStatus.WAITING
    other.close()
