"""What retention took of the logs is no fault; what it cannot have taken is one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Event, Runtime, Topology
from shardline.actors.identifiers import new_uuid7
from shardline.adapters.base import Uncertain
from shardline.runtime.defaults import PRUNE_EVERY_S
from shardline.runtime.retention import Retention
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.aging_clock import AgingClock
from tests.kits.audited import Fault, Tampered, make_chats

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from shardline.storage.audit.checks.registry import pick_checks
from shardline.storage.audit.copies import Copies
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.run import Audited, run_audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY_S = 86_400


def new_event(key: str | None) -> Event:
    return Event(id=new_uuid7(), ts_us=1_760_000_000_000_000, topic="news", payload="x", idem_key=key)


async def grow_old(path: Path, exports: Path) -> None:
    """A bot through three times of retention, and an export after each.

    The message of an uncertain send is taken; of the events those are taken that have no key; the last ones stay.
    """
    clock, topology = AgingClock(), Topology()
    topology.topic("news", partitions=1)

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(f"re {message.payload.text}")

    async def wait(runtime: Runtime, days: int) -> None:
        await runtime.wait_until(lambda: runtime.is_quiet)
        clock.pass_by(days * DAY_S * 1_000_000)
        await trio.sleep(PRUNE_EVERY_S + 30)
        export_store(path, exports)

    channel = FakeChannel()
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    retention = Retention(messages_s=DAY_S, keys_s=10 * DAY_S, history_s=60 * DAY_S)
    async with Runtime.open(
        topology, store=store, adapters=[channel], clock=clock, retention=retention
    ) as runtime:
        channel.script(Uncertain("no answer"))
        await channel.say("unknown", "one")
        await wait(runtime, 0)
        await channel.say("unknown", "two")
        await wait(runtime, 20)
        for key in ("a", None, "b"):
            await runtime.publish(new_event(key))
        await wait(runtime, 2)
        for text in ("three", "four"):
            await channel.say("late", text)
            await runtime.publish(new_event(None))
        await wait(runtime, 0)


def find(audited: Audited, out: Path) -> set[Fault]:
    summary = run_audit(audited, out, pick_checks(("log_gaps", "answer_without_message")), measures=())
    rows = audited.spark.read.parquet(str(out / "finding")).select("check", "ref_id").collect()
    assert summary.is_complete, [one.error for one in summary.checks if one.error]
    return {(str(row[0]), str(row[1])) for row in rows}


def test_what_retention_took_is_no_fault(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "bot.db"
    trio.run(grow_old, store, tmp_path / "many", clock=MockClock(autojump_threshold=0))
    with Tampered(store, relink=False) as whole:
        kept = whole.rows("SELECT off FROM event ORDER BY off")
        lost = whole.rows("SELECT id FROM outbox WHERE inbox_id NOT IN (SELECT id FROM inbox)")
    found_in_many = find(Exported(spark, tmp_path / "many"), tmp_path / "out-many")
    found_in_store = find(Copies(spark, store), tmp_path / "out-store")

    # There is something that could be taken for a fault.
    assert kept == [(0,), (2,), (3,), (4,)]
    assert len(lost) == 1
    assert found_in_many == found_in_store == set()

    with Tampered(store, relink=False) as spoiled:
        late = spoiled.rows("SELECT id, topic || '/' || part || '/' || off FROM inbox WHERE id = 3")
        spoiled.run("DELETE FROM inbox WHERE id = 3")
        spoiled.run("DELETE FROM event WHERE off = 3")
    [(_, place)] = late

    assert find(Copies(spark, store), tmp_path / "out-spoiled") == {
        ("answer_without_message", "3"),
        ("log_gaps", str(place)),
        ("log_gaps", "news/0/3"),
    }


def test_numbers_at_the_end_of_64_bits_are_looked_at(spark: SparkSession, tmp_path: Path) -> None:
    store, end = tmp_path / "a.db", 2**63 - 1
    make_chats(store, chats=2, events=3)
    with Tampered(store, relink=False) as spoiled:
        spoiled.run("UPDATE event SET off = ? WHERE off = 1", end)
        spoiled.run("INSERT INTO log_end VALUES ('chat.message', 99, ?, ?)", end, end)

    assert find(Copies(spark, store), tmp_path / "out") == {
        ("log_gaps", "news/0/1"),
        ("log_gaps", "news/0/32"),
    }
