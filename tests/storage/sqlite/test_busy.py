"""Another process holds the file: nothing is lost, nothing is answered early, the file is written as it should be."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import apsw
import pytest
import trio

from shardline.actors.errors import Code
from shardline.storage.commands import Committed, Outcome, Stored
from shardline.storage.sqlite import database, open_sqlite
from tests.kits.disks import beside
from tests.kits.forked import Running
from tests.kits.store_checks import check_store
from tests.kits.store_rows import finish_row
from tests.kits.stores import running
from tests.kits.words import refused

HOLDER = """
import sys
import apsw
held = apsw.Connection(sys.argv[1])
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
held.execute("ROLLBACK")
"""


def held_by_another_process(path: Path) -> AbstractContextManager[Running]:
    return beside(HOLDER, path)


@pytest.fixture
def short_busy_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 200)


async def test_updates_that_arrive_under_a_foreign_lock_wait_for_it(tmp_path: Path) -> None:
    """Field reports 40 and 42, with a lock of half a second for eight."""
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path)) as hand:
        record = await hand.accept("tg:1", 1, claim=True)
        outcomes: list[Outcome] = []
        with held_by_another_process(path):
            for number in range(2, 52):
                hand.store.submit(hand.publish(hand.new_inbox("tg:1", number)), outcomes.append)
            hand.store.submit(hand.commit(record.shard, inbox=(finish_row(record),)), outcomes.append)
            await trio.sleep(0.5)
            assert outcomes == []
            assert hand.store.reader.count_inbox()
        await hand.accept("tg:1", 52)

        assert [type(outcome) for outcome in outcomes] == [Stored] * 50 + [Committed]
    assert len(check_store(path)) == 52


@pytest.mark.usefixtures("short_busy_timeout")
async def test_publish_is_refused_as_not_stored_and_a_commit_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path)) as hand:
        record = await hand.accept("tg:1", 1, claim=True)
        commits: list[Outcome] = []
        with held_by_another_process(path):
            hand.store.submit(hand.commit(record.shard, inbox=(finish_row(record),)), commits.append)
            with refused(Code.STORE_BUSY):
                await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 2)))
            assert commits == []
        await hand.accept("tg:1", 3)

        assert commits == [Committed()]
    assert check_store(path) == {"in:telegram:tg:1:1", "in:telegram:tg:1:3"}


@pytest.mark.usefixtures("short_busy_timeout")
async def test_begin_is_tried_three_times(tmp_path: Path) -> None:
    """Whoever has the lock goes when the third try begins."""
    holders: list[apsw.Connection] = []
    tries = 0

    def trace(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        nonlocal tries
        if holders and sql == "BEGIN IMMEDIATE":
            tries += 1
            if tries == 3:
                holders.pop().execute("ROLLBACK")
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    apsw.connection_hooks.append(hook)
    try:
        store = open_sqlite(tmp_path / "bot.db")
    finally:
        apsw.connection_hooks.remove(hook)
    async with running(store) as hand:
        holder = apsw.Connection(str(tmp_path / "bot.db"))
        holder.execute("BEGIN IMMEDIATE")
        holders.append(holder)
        await hand.accept("tg:1", 1)
        holder.close()

    assert tries == 3


@pytest.mark.usefixtures("short_busy_timeout")
async def test_opening_a_held_file_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path)):
        pass
    with held_by_another_process(path):
        with refused(Code.STORE_BUSY):
            open_sqlite(path)
    async with running(open_sqlite(path)) as hand:
        assert hand.store.info.instance == 2


async def test_every_transaction_that_writes_begins_immediate(tmp_path: Path) -> None:
    """A deferred one that reads first fails at once when someone else has committed (field report 40)."""
    statements: list[str] = []

    def trace(cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
        statements.append(" ".join(sql.split()[:2]).upper())
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = trace

    apsw.connection_hooks.append(hook)
    try:
        async with running(open_sqlite(tmp_path / "bot.db")) as hand:
            record = await hand.accept("tg:1", 1, claim=True)
            await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 1)))
            await hand.move(finish_row(record))
            with refused(Code.STALE_CLAIM):
                await hand.move(finish_row(record))
            await hand.store.take_lease(3)
    finally:
        apsw.connection_hooks.remove(hook)

    inside = False
    writes = 0
    for statement in statements:
        first = statement.split()[0]
        if first == "BEGIN":
            assert statement == "BEGIN IMMEDIATE"
            assert not inside
            inside = True
        elif statement in {"COMMIT", "ROLLBACK"}:
            inside = False
        elif first in {"INSERT", "UPDATE", "DELETE", "CREATE"}:
            assert inside, statement
            writes += 1
    assert writes > 20
    assert statements.count("BEGIN IMMEDIATE") > 6
