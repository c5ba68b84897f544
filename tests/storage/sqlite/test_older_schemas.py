"""Stores that the code of schemas 2 to 5 left when it was killed: upgraded, all that is in them goes to its end.

Each, `schema-N.db.gz`, holds messages done, two dead (`die`), one that failed and waits (`fail`), one running and two
queued behind it; sends sent, one dead (`re refused send`) and one uncertain (`re lost`). From 3 on
the running one has a step's result, from 4 on there is a timer that waits, from 5 on one that repeats as well.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import apsw
import pytest
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.storage.records import InboxStatus, OutboxState
from shardline.storage.sqlite.migrate import load_migrations
from shardline.testing import FakeChannel
from tests.kits.controlled import query
from tests.kits.store_checks import check_store


@pytest.fixture(params=[2, 3, 4, 5])
def schema(request: pytest.FixtureRequest) -> int:
    assert isinstance(request.param, int)
    return request.param


def test_work_of_every_kind_goes_to_its_end_behind_an_upgrade(tmp_path: Path, schema: int) -> None:
    path = tmp_path / "bot.db"
    path.write_bytes(gzip.decompress(Path(__file__).with_name(f"schema-{schema}.db.gz").read_bytes()))
    topology, ran_again = Topology(), list[str]()
    topology.topic("log")

    def once_more() -> str:
        ran_again.append("step")
        return "made anew"

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        text = message.payload.text
        if text == "step":
            text += " " + await ctx.step("once", once_more)
        if text == "die":
            assert ctx.generation == 1
        ctx.state["n"] = int(str(ctx.state.get("n", 0))) + 1
        ctx.publish("log", {"t": text})
        ctx.reply(f"re {text}, {ctx.state['n']!r}")

    def texts(channel: FakeChannel, address: str) -> list[object]:
        return [out.text for out in channel.delivered if out.address == address]

    async def main() -> None:
        channel = FakeChannel()
        async with Runtime.open(topology, store=path, adapters=[channel]) as runtime:

            async def until_quiet() -> None:
                with trio.fail_after(60):
                    await runtime.wait_until(lambda: runtime.is_quiet)

            await until_quiet()
            status = runtime.status()
            assert (status.inbox[InboxStatus.DEAD], status.inbox[InboxStatus.QUEUED]) == (2, 0)
            assert (status.outbox[OutboxState.DEAD], status.outbox[OutboxState.UNCERTAIN]) == (1, 1)
            # What the kill cut off goes before what waits behind it, and knows what its steps gave.
            first = "re step kept, 1" if schema >= 3 else "re stay, 1"
            assert texts(channel, "c6") == [first, "re behind, 2", "re behind too, 3"]
            assert texts(channel, "c5") == ["re fail, 1"]
            assert ran_again == []
            [lost] = runtime.outbox.list(state=OutboxState.UNCERTAIN)
            await runtime.outbox.resolve(lost.record.id, "resend")
            [dead] = runtime.outbox.list(state=OutboxState.DEAD)
            await runtime.outbox.requeue(dead.record.id)
            for row in runtime.dead_letters.list():
                await runtime.dead_letters.requeue(row.record.id)
            await until_quiet()
            # State goes on where it was: each of these had been greeted.
            assert texts(channel, "c0") == texts(channel, "c1") == ["re die, 2"]
            assert texts(channel, "c2") == ["re lost"]
            assert texts(channel, "c3") == ["re refused send"]
            if schema >= 4:
                with trio.fail_after(60):
                    await runtime.wait_until(lambda: "re from a timer" in str(texts(channel, "c4")))
            if schema >= 5:
                with trio.fail_after(60):
                    await runtime.wait_until(lambda: "re tick" in str(texts(channel, "c4")))
            await until_quiet()

    trio.run(main)
    newest = load_migrations()[-1].number
    assert query(path, "SELECT schema FROM store_meta") == [(newest,)]
    assert query(path, "SELECT DISTINCT status FROM inbox") == [("done",)]
    assert query(path, "SELECT DISTINCT status FROM outbox") == [("sent",)]
    assert query(path, "SELECT rule FROM timer") == ([("every 5",)] if schema >= 5 else [])
    check_store(path)
    (copy,) = tmp_path.glob(f"bot.db.schema-{schema}-*.backup")
    database = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
    assert database.execute("SELECT schema FROM store_meta").fetchall() == [(schema,)]
    database.close()
