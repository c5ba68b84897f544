"""A start that is killed while it counts what a crash left: each message is counted once, and nobody is blamed."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from shardline import BusError, Runtime
from shardline.actors.failpoints import FailPoints
from shardline.storage.records import InboxRecord
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot
from tests.kits.controlled import query
from tests.kits.stores import running

KEYS = ("tg:1", "tg:2", "tg:3")


def test_a_kill_between_the_commits_of_a_recovery_blames_no_innocent(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"

    async def crash_with_three_in_flight() -> None:
        async with running(open_sqlite(path)) as hand:
            assert len({hand.shard(key) for key in KEYS}) == len(KEYS)
            for key in KEYS:
                await hand.store.publish(hand.publish(hand.new_inbox(key, 1), claim=True))

    async def recover_cut_off() -> None:
        # Behind the second of three commits: one message is left as it was found.
        points = FailPoints.parse("recovery.after_commit:2:raise")
        store = open_sqlite(path, failpoints=points)
        async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel("telegram")]):
            raise AssertionError("it has started")

    async def left() -> list[InboxRecord]:
        async with running(open_sqlite(path)) as hand:
            return hand.store.reader.claimed()

    async def recover() -> None:
        async with Runtime.open(
            counting_bot(), store=open_sqlite(path), adapters=[FakeChannel("telegram")]
        ) as runtime:
            with trio.fail_after(30):
                await runtime.wait_until(lambda: runtime.is_quiet)

    trio.run(crash_with_three_in_flight)
    with pytest.raises(BusError, match="FailPointError"):
        trio.run(recover_cut_off)
    assert len(trio.run(left)) == 1
    trio.run(recover)

    counted = query(path, "SELECT event FROM history WHERE kind = 'in' AND event IN ('crash', 'blame')")
    assert counted == [("crash",)] * 3
    assert query(path, "SELECT 1 FROM fact WHERE key = 'recovery'") == []
    assert query(path, "SELECT DISTINCT status FROM inbox") == [("done",)]
