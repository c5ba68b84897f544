"""A store that version 0.1.0 left when it was killed, `schema-1.db.gz`: its upgrade loses and changes nothing.

It holds 14 messages done, 5 dead, one running and one queued behind it, 12 sends sent, one dead and one uncertain.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import apsw
import pytest
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.runtime.control.verbs import Purge, Requeue, RowRef
from shardline.storage.port import StoreInfo
from shardline.storage.records import InboxStatus, OutboxState
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.migrate import load_migrations
from shardline.testing import FakeChannel
from tests.kits.controlled import decide, query
from tests.kits.store_checks import check_store
from tests.kits.stores import running

KEPT = Path(__file__).with_name("schema-1.db.gz")
TABLES = ("inbox", "outbox", "event", "conversation", "fact", "emit", "history", "anchor")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    path.write_bytes(gzip.decompress(KEPT.read_bytes()))
    return path


def rows_of(path: Path) -> dict[str, list[apsw.SQLiteValues]]:
    """Every row of the tables that schema 1 has, in the columns that it has."""
    memory = apsw.Connection(":memory:")
    memory.execute(load_migrations()[0].script)
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found: dict[str, list[apsw.SQLiteValues]] = {}
        for table in TABLES:
            columns = ", ".join(f'"{column[1]}"' for column in memory.execute(f"PRAGMA table_info({table})"))
            found[table] = database.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}").fetchall()
        return found
    finally:
        database.close()
        memory.close()


async def open_once(path: Path) -> StoreInfo:
    async with running(open_sqlite(path)) as hand:
        assert hand.store.reader.count_inbox() == {
            **dict.fromkeys(InboxStatus, 0),
            InboxStatus.DONE: 14,
            InboxStatus.DEAD: 5,
            InboxStatus.RUNNING: 1,
            InboxStatus.QUEUED: 1,
        }
        assert hand.store.reader.count_outbox() == {
            **dict.fromkeys(OutboxState, 0),
            OutboxState.SENT: 12,
            OutboxState.DEAD: 1,
            OutboxState.UNCERTAIN: 1,
        }
        return hand.store.info


async def test_an_upgrade_keeps_every_row_and_chain_and_a_copy(old: Path) -> None:
    before = rows_of(old)
    assert len(before["inbox"]) == 21
    info = await open_once(old)

    assert (info.schema, info.instance, info.clean) == (load_migrations()[-1].number, 2, False)
    assert rows_of(old) == before
    check_store(old)
    (copy,) = old.parent.glob("*.backup")
    assert copy.name.startswith("bot.db.schema-1-")
    assert rows_of(copy) == before
    check_store(copy)


def test_an_upgraded_store_is_run_requeued_and_purged(old: Path) -> None:
    topology = Topology()
    topology.topic("log")

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    async def main() -> dict[InboxStatus, int]:
        channel = FakeChannel()
        async with Runtime.open(topology, store=old, adapters=[channel]) as runtime:
            with trio.fail_after(30):
                await runtime.wait_until(lambda: runtime.is_quiet)
            # The one that the kill cut off has one crash, and goes before the one behind it.
            assert [out.text for out in channel.delivered] == ["stay", "after"]
            [dead] = runtime.outbox.list(state=OutboxState.DEAD)
            await runtime.outbox.requeue(dead.record.id)
            with trio.fail_after(30):
                await runtime.wait_until(lambda: runtime.is_quiet)
            assert channel.delivered[-1].text == "a"
            return dict(runtime.status().inbox)

    counts = trio.run(main)
    assert (counts[InboxStatus.DONE], counts[InboxStatus.DEAD]) == (16, 5)
    ((dead_id,),) = query(old, "SELECT min(id) FROM inbox WHERE status = 'dead'")
    assert isinstance(dead_id, int)
    assert decide(old, Requeue((RowRef("in", dead_id),))).status == "done"
    assert decide(old, Purge(2**62)).values["messages"] == 4
    check_store(old)
