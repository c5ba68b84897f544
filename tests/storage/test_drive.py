"""How a journal starts, stops, fails and is torn down, on its own thread and inline."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest
import trio
import trio.testing

from shardline.actors.errors import Code
from shardline.actors.failpoints import FailPointError, FailPoints
from shardline.storage.commands import Outcome, Stored
from shardline.storage.journal import Mode
from shardline.storage.sqlite import open_sqlite
from tests.kits.store_checks import check_store
from tests.kits.stores import refusal_code, running
from tests.kits.words import refused

ROOT = Path(__file__).parents[2]
MODES: tuple[Mode, ...] = ("thread", "inline")


def journal_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("shardline")]


async def test_thread_is_refused_under_a_mock_clock(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    with refused(Code.STORE_MISMATCH, "mock clock"):
        open_sqlite(tmp_path / "bot.db")

    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 (a test's folder)


@pytest.mark.parametrize("mode", MODES)
async def test_nothing_is_left_running(tmp_path: Path, mode: Mode) -> None:
    async with running(open_sqlite(tmp_path / "bot.db", mode=mode)) as hand:
        await hand.accept("tg:1", 1)
        assert journal_threads()

    assert journal_threads() == []


async def test_many_publishers_share_a_commit_and_one_alone_has_its_own(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "bot.db", mode="inline")
    stored: list[Stored] = []

    async with running(store) as hand:

        async def publish(number: int) -> None:
            outcome = await store.publish(hand.publish(hand.new_inbox("tg:1", number)))
            assert isinstance(outcome, Stored)
            stored.append(outcome)

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(publish, number)

        assert sorted(outcome.offset for outcome in stored) == list(range(100))
    # The opening is a commit too.
    assert commits_of(tmp_path / "bot.db") == 2


def commits_of(path: Path) -> int:
    database = apsw.Connection(str(path))
    ((commits,),) = database.execute("SELECT commit_seq FROM store_commit").fetchall()
    database.close()
    assert isinstance(commits, int)
    return commits


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("border", ["before_commit", "after_commit", "before_wake"])
async def test_failure_at_a_border_ends_the_store_and_tells_nobody_it_is_stored(
    tmp_path: Path, mode: Mode, border: str
) -> None:
    path = tmp_path / "bot.db"
    outcomes: list[Outcome] = []
    points = FailPoints.parse(f"accept.{border}:2:raise")
    with pytest.RaisesGroup(FailPointError):
        async with running(open_sqlite(path, mode=mode, failpoints=points)) as hand:
            await hand.accept("tg:1", 1)
            hand.store.submit(hand.publish(hand.new_inbox("tg:1", 2)), outcomes.append)
            with refused(Code.STORE_IO):
                await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 3)))
            await trio.sleep_forever()

    assert [refusal_code(outcome) for outcome in outcomes] == [Code.STORE_IO]
    first = {"in:telegram:tg:1:1"}
    if border == "before_commit":
        assert check_store(path) == first
    else:
        assert check_store(path) > first
    async with running(open_sqlite(path)) as hand:
        assert not hand.store.info.clean


@pytest.mark.parametrize("mode", MODES)
async def test_cancelled_at_every_checkpoint_a_publish_is_stored_or_not_handed_over(
    tmp_path: Path, mode: Mode
) -> None:
    path = tmp_path / "bot.db"
    known: set[str] = set()
    async with running(open_sqlite(path, mode=mode, durability="normal")) as hand:
        for steps in range(60):
            row = hand.new_inbox("tg:1", steps)
            scope = trio.CancelScope()

            async def publish() -> None:
                with scope:  # noqa: B023 (awaited in this round)
                    await hand.store.publish(hand.publish(row))  # noqa: B023
                    known.add(row.dedupe_key)  # noqa: B023

            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish)
                for _ in range(steps % 6):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        await hand.accept("tg:2", 1)

    assert check_store(path) == known | {"in:telegram:tg:2:1"}
    assert 0 < len(known) < 60


TORN_DOWN = """
import sys, threading, time
import trio
from shardline.actors.failpoints import FailPoints
from shardline.storage.sqlite import open_sqlite
from tests.kits.store_rows import Hand

class BreakableClock(trio.abc.Clock):
    broken = False
    def start_clock(self): pass
    def current_time(self): return time.perf_counter()
    def deadline_to_sleep_time(self, deadline):
        if self.broken:
            raise LookupError("in the middle of trio")
        return deadline - self.current_time()

clock = BreakableClock()
points = FailPoints.parse("accept.after_commit:1:wait")

async def main():
    store = open_sqlite(sys.argv[1], failpoints=points)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        hand = Hand(store)
        store.submit(hand.publish(hand.new_inbox("tg:1", 1)), print)
        assert points.wait_reached(10)
        clock.broken = True
        await trio.sleep_forever()

try:
    trio.run(main, clock=clock)
except trio.TrioInternalError:
    points.release()
    for thread in threading.enumerate():
        if thread.name.startswith("shardline"):
            thread.join(10)
    async def again():
        store = open_sqlite(sys.argv[1])
        assert not store.info.clean
        store.close()
    trio.run(again)
    print("closed")
"""


def test_store_is_closed_and_unlocked_if_the_trio_run_is_gone(tmp_path: Path) -> None:
    """trio itself crashed while a commit was under way: nobody can be told any more."""
    path = tmp_path / "bot.db"
    done = subprocess.run(
        [sys.executable, "-c", TORN_DOWN, str(path)],
        check=False,
        timeout=30,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )

    assert done.stdout.splitlines()[-1:] == ["closed"], done.stderr
    assert "Stored" not in done.stdout
    assert check_store(path) == {"in:telegram:tg:1:1"}
