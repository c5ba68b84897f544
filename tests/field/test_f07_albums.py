"""Field entry 7: the parts of an album are rows of their own at once, in order, none lost; with `album_s` one turn."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import apsw
from trio.testing import MockClock

from shardline.storage.records import InboxStatus
from shardline.testing import Harness
from tests.kits.albums import CAPTIONS, album_bot, part
from tests.kits.reaped import reaped

BOT = ["-m", "tests.field.album_bot"]


async def test_three_parts_in_two_pages_are_one_turn_with_both_captions_in_order(
    autojump_clock: MockClock,
) -> None:
    topology, turns = album_bot(1.0)
    async with Harness(topology, store="sqlite-inline") as bot:
        for number in (0, 1):
            await bot.channel("fake").read(part(number))
        assert bot.runtime.status().inbox[InboxStatus.QUEUED] == 2
        await bot.advance(0.3)
        await bot.channel("fake").read(part(2))
        await bot.settle()

        assert turns == [list(CAPTIONS)]
        assert bot.sent("fake:1") == ["3 parts"]
        assert bot.runtime.status().inbox[InboxStatus.DONE] == 3


async def test_a_crash_between_the_pages_loses_nothing_and_it_still_is_one_turn(
    autojump_clock: MockClock,
) -> None:
    topology, turns = album_bot(1.0)
    async with Harness(topology, store="sqlite-inline") as bot:
        for number in (0, 1):
            await bot.channel("fake").read(part(number))
        await bot.crash()
        await bot.advance(0.3)
        # The platform has not heard that the first page arrived: it sends all of it again.
        for number in (0, 1, 2):
            await bot.channel("fake").read(part(number))
        await bot.settle()

        assert turns == [list(CAPTIONS)]
        assert bot.runtime.status().inbox[InboxStatus.DONE] == 3


async def test_off_they_are_three_turns_in_order_with_a_crash_between(autojump_clock: MockClock) -> None:
    topology, turns = album_bot(None)
    async with Harness(topology, store="sqlite-inline") as bot:
        for number in (0, 1):
            await bot.channel("fake").read(part(number))
        await bot.settle()
        await bot.crash()
        await bot.advance(0.3)
        for number in (0, 1, 2):
            await bot.channel("fake").read(part(number))
        await bot.settle()

        assert turns == [[caption] for caption in CAPTIONS]
        assert bot.runtime.status().inbox[InboxStatus.DONE] == 3


def test_a_kill_between_the_pages_loses_nothing_and_it_still_is_one_turn(tmp_path: Path) -> None:
    command = [sys.executable, *BOT, str(tmp_path)]
    with reaped(subprocess.Popen([*command, "first"], stdout=subprocess.PIPE, text=True)) as running:
        assert running.stdout is not None
        assert running.stdout.readline().strip() == "page stored"
        running.kill()
    assert running.returncode == -signal.SIGKILL

    done = subprocess.run([*command, "both"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()[1:]] == [list(CAPTIONS)]
    with apsw.Connection(str(tmp_path / "bot.db"), flags=apsw.SQLITE_OPEN_READONLY) as database:
        assert (
            database.execute("SELECT status, claim FROM inbox ORDER BY seq").fetchall() == [("done", 1)] * 3
        )
