"""Field entry 18: a second process on the same store ends at once and changes nothing; a killed one leaves no lock."""

from __future__ import annotations

import signal
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

import apsw

from tests.kits.forked import Running, Script, start_forked

BOT = """
import time
from shardline import Topology, run
from shardline.testing import FakeChannel
topology = Topology()
@topology.on("chat.message")
async def answer(ctx, message): ...
class Says(FakeChannel):
    async def run(self, edge, *, task_status):
        task_status.started()
        print("up", time.monotonic() - started, flush=True)
        await super().run(edge)
started = time.monotonic()
try:
    run(topology, store="bot.db", adapters=[Says()])
finally:
    print(time.monotonic() - started, flush=True)
"""


TRIES = 3
"""Of these the quickest counts: on a busy machine any of them may have waited for its turn."""


def start(folder: Path) -> AbstractContextManager[Running]:
    return start_forked(Script(BOT), folder=folder)


def wait_up(bot: Running) -> float:
    """Wait until its channel reads; how many seconds that took from the call of `run` on."""
    word, took_s = bot.stdout.readline().split()
    assert word == "up"
    return float(took_s)


def refused(folder: Path) -> float:
    """Start a second owner; how many seconds it took until it was refused."""
    with start(folder) as second:
        said, errors = second.communicate(timeout=30)
    assert second.returncode == 1
    assert "STORE_LOCKED" in errors
    return float(said)


def openings(folder: Path) -> list[tuple[object, ...]]:
    database = apsw.Connection(str(folder / "bot.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found = database.execute("SELECT id, clean FROM instance ORDER BY id").fetchall()
        return cast("list[tuple[object, ...]]", found)
    finally:
        database.close()


def test_the_second_owner_ends_within_a_second_and_after_a_kill_the_next_starts_at_once(
    tmp_path: Path,
) -> None:
    with start(tmp_path) as first:
        wait_up(first)
        before = openings(tmp_path)
        refused_s = [refused(tmp_path) for _ in range(TRIES)]
        assert openings(tmp_path) == before
        first.kill()
        first.wait(30)
    up_s: list[float] = []
    for _ in range(TRIES):
        with start(tmp_path) as killed:
            up_s.append(wait_up(killed))
            killed.kill()
            killed.wait(30)
    with start(tmp_path) as last:
        wait_up(last)
        assert len(openings(tmp_path)) == TRIES + 2
        last.send_signal(signal.SIGTERM)
        last.communicate(timeout=30)
    assert last.returncode == 0
    assert min(refused_s) < 1.0
    assert min(up_s) < 1.0
