"""Field entry 53: an idle conversation costs no object and no memory, only its rows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from shardline import Runtime
from shardline.actors.clock import FakeClock
from shardline.storage.records import InboxStatus, OutboxState
from shardline.storage.sqlite import open_sqlite
from tests.kits.idle import Crowd, all_idle, objects_of_ours, remembering_bot

MIB = 1 << 20


async def test_thousands_of_conversations_leave_no_object_behind(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    others = objects_of_ours()
    clock, crowd = FakeClock(start_us=1_767_225_600_000_000), Crowd()
    store = open_sqlite(tmp_path / "bot.db", mode="inline", durability="normal", clock=clock)
    async with Runtime.open(remembering_bot(), store=store, adapters=[crowd], clock=clock) as runtime:
        with trio.fail_after(600):
            await crowd.speak(range(500))
            await all_idle(runtime)
            before = objects_of_ours()
            await crowd.speak(range(500, 5_500))
            assert runtime.status().lanes > 0
            await all_idle(runtime)

            assert objects_of_ours() - before == Counter()
            # Nor had the first ones left one each: what there is are the parts of the runtime.
            assert max((before - others).values()) < 100
            status = runtime.status()
            assert status.inbox[InboxStatus.DONE] == status.outbox[OutboxState.SENT] == 5_500
            assert status.tokens_free == 1_024


@pytest.mark.long
def test_two_hundred_thousand_conversations_cost_no_memory_once_they_are_idle(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kits.idle", str(tmp_path / "bot.db"), "10000", "200000"],
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)

    assert measured["handled"] == measured["sent"] == 210_000
    assert measured["lanes"] == 0
    assert measured["more_objects"] == {}
    assert measured["grown_bytes"] < 30 * MIB, measured
    # Nor in between: what waits to be sent waits on disk.
    assert measured["most_lanes"] < 2 * 16 * (256 + 512 + 64) + 2 * 1_024, measured
