"""Field entry 41: a reader that stays lets the log grow; health says so, whose it is and for how long.

The log is emptied once it has ended.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from shardline import Runtime
from shardline.runtime.health import Health, HealthState
from shardline.storage.commands import Commit, Committed, Fact, Outcome
from shardline.storage.journal import Journal
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.checkpoint import Checkpointer
from shardline.storage.sqlite.reader import SqliteReader
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


@contextmanager
def own_read(store: Journal) -> Generator[None]:
    """A read of the store's own that is not stepped to its end, which no method of it does."""
    assert isinstance(store.reader, SqliteReader)
    connection = store.reader._connection  # pyright: ignore[reportPrivateUsage]
    rows = connection.execute("SELECT uuid FROM store_meta UNION ALL SELECT uuid FROM store_meta")
    next(rows)
    yield
    rows.close()


@pytest.mark.parametrize("whose", ["a reader of another process", "a read of this bot"])
async def test_health_is_degraded_while_a_reader_pins_the_log_and_ok_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
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

            with beside(READER, path) if "another" in whose else own_read(store):
                await write(COMMITS)
                await trio.to_thread.run_sync(over.acquire)
                health = runtime.status().store
                assert log.stat().st_size > COMMITS * EACH_BYTES
                assert health.log_bytes > COMMITS * EACH_BYTES
                [problem] = health.problems
                assert "the log has grown to" in problem
                assert ("end that reader" in problem) == ("another" in whose)
                told = runtime.health()
                assert (told.state, [reason.word for reason in told.reasons]) == (
                    HealthState.DEGRADED,
                    ["log_grown"],
                )
                said = re.search(r"MiB: for (\d+) s (.+) has kept", told.reasons[0].text)
                assert said is not None
                assert said[2] == whose
                assert 0 <= int(said[1]) <= 60
            # Those of the long write have all been told by now, or come before the last one's.
            while over.acquire(blocking=False):
                pass
            await write(1)
            await trio.to_thread.run_sync(over.acquire)

            assert runtime.status().store.is_ok
            assert runtime.health() == Health(HealthState.OK, ())
            assert log.stat().st_size == 0
