"""What a send said is gone, its row is not: nothing can be said of its content any more."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.runtime.defaults import PRUNE_EVERY_S
from shardline.runtime.retention import Retention
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.aging_clock import AgingClock

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


async def answer_and_empty(path: Path, exports: Path) -> None:
    """Three answers to one conversation within a moment, emptied; and one after that. An export before and after."""
    clock, topology, channel = AgingClock(), Topology(), FakeChannel()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(f"re {message.payload.text}")

    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    retention = Retention(messages_s=DAY_S, keys_s=10 * DAY_S)
    async with Runtime.open(
        topology, store=store, adapters=[channel], clock=clock, retention=retention
    ) as runtime:
        for text in ("one", "two", "three"):
            await channel.say("somebody", text)
        await runtime.wait_until(lambda: runtime.is_quiet)
        export_store(path, exports)
        clock.pass_by(2 * DAY_S * 1_000_000)
        await trio.sleep(PRUNE_EVERY_S + 30)
        await channel.say("somebody", "four")
        await runtime.wait_until(lambda: runtime.is_quiet)
        export_store(path, exports)


def hashes_and_findings(audited: Audited, out: Path) -> tuple[dict[int, bool], int | None]:
    """By id whether a send has a hash; and how often the same was said."""
    rows = audited.table("outbox").select("id", "content_hash").collect()
    summary = run_audit(audited, out, pick_checks(("duplicate_content",)), measures=())
    [found] = [one.findings for one in summary.checks if one.status != "not_run"]
    return {row[0]: row[1] is not None for row in rows}, found


def test_sends_that_retention_emptied_do_not_say_the_same(spark: SparkSession, tmp_path: Path) -> None:
    trio.run(
        answer_and_empty, tmp_path / "bot.db", tmp_path / "exports", clock=MockClock(autojump_threshold=0)
    )
    wanted = ({1: False, 2: False, 3: False, 4: True}, 0)

    assert hashes_and_findings(Copies(spark, tmp_path / "bot.db"), tmp_path / "out-store") == wanted
    assert hashes_and_findings(Exported(spark, tmp_path / "exports"), tmp_path / "out-exports") == wanted
