"""Field entry 41: a reader that stays lets the log grow; health says so, and the log is emptied once it has ended."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import trio

from shardline import Runtime
from shardline.runtime.health import Health, HealthState
from shardline.storage.commands import Commit, Committed, Fact, Outcome
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.checkpoint import Checkpointer
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot
from tests.kits.disks import beside

READER = """
import sys
import apsw
reader = apsw.Connection(sys.argv[1])
reader.execute("BEGIN")
reader.execute("SELECT count(*) FROM store_meta").fetchall()
print("reads", flush=True)
sys.stdin.read()
reader.execute("COMMIT")
"""
COMMITS = 1_500
EACH_BYTES = 32 * 1024


async def test_health_is_degraded_while_a_reader_pins_the_log_and_ok_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bot.db"
    over = threading.Semaphore(0)
    checkpoint = Checkpointer.checkpoint

    def watched(self: Checkpointer) -> None:
        checkpoint(self)
        over.release()

    monkeypatch.setattr(Checkpointer, "checkpoint", watched)
    store = open_sqlite(path, durability="normal")
    log = path.with_name("bot.db-wal")
    with trio.fail_after(60):
        async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()]) as runtime:
            assert runtime.status().store.is_ok

            async def write(count: int) -> None:
                done, settled = trio.Event(), list[Outcome]()

                def settle(outcome: Outcome) -> None:
                    settled.append(outcome)
                    if len(settled) == count:
                        done.set()

                for number in range(count):
                    fact = Fact("test", str(number), bytes(EACH_BYTES))
                    store.submit(Commit(shard=0, epoch=store.epochs[0], at_us=1, facts=(fact,)), settle)
                await done.wait()
                assert set(settled) == {Committed()}

            with beside(READER, path):
                await write(COMMITS)
                await trio.to_thread.run_sync(over.acquire)
                health = runtime.status().store
                assert log.stat().st_size > COMMITS * EACH_BYTES
                assert health.log_bytes > COMMITS * EACH_BYTES
                [problem] = health.problems
                assert "the log has grown to" in problem
                assert "end that reader" in problem
                assert [reason.word for reason in runtime.health().reasons] == ["log_grown"]
                assert runtime.health().state is HealthState.DEGRADED
            # Those of the long write have all been told by now, or come before the last one's.
            while over.acquire(blocking=False):
                pass
            await write(1)
            await trio.to_thread.run_sync(over.acquire)

            assert runtime.status().store.is_ok
            assert runtime.health() == Health(HealthState.OK, ())
            assert log.stat().st_size == 0
