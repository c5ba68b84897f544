"""Field entry 7: the parts of an album are rows of their own at once, in order, none lost; with `album_s` one turn."""

from __future__ import annotations

import json
import signal
from contextlib import AbstractContextManager
from pathlib import Path

import apsw
import pytest
import trio
from trio.testing import MockClock

from shardline import Runtime
from shardline.actors.plain import Plain
from shardline.adapters.telegram.sim.script import Fault
from shardline.storage.memory import open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import Harness
from tests.adapters.telegram.platform import open_platform
from tests.kits.albums import CAPTIONS, album_bot, part
from tests.kits.forked import Running, start_forked


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


def photo(number: int) -> dict[str, Plain]:
    """One of the three updates, as Telegram sends it."""
    message: dict[str, Plain] = {
        "message_id": number + 1,
        "media_group_id": "g1",
        "from": {"id": 7, "is_bot": False, "first_name": "Ada"},
        "chat": {"id": 7, "type": "private"},
        "date": 1_760_000_000 + number,
        "photo": [{"file_id": f"FAKE{number}", "file_unique_id": f"u{number}", "width": 9, "height": 9}],
    }
    if CAPTIONS[number]:
        message["caption"] = CAPTIONS[number]
    return {"message": message}


@pytest.mark.parametrize(
    ("album_s", "wanted"), [(1.0, [list(CAPTIONS)]), (None, [[caption] for caption in CAPTIONS])]
)
async def test_two_pages_of_the_platform_300_ms_apart(album_s: float | None, wanted: list[list[str]]) -> None:
    topology, turns = album_bot(album_s)
    async with open_platform() as platform:
        for number in (0, 1):
            platform.bot.push(photo(number))
        adapter = platform.adapter()
        with trio.fail_after(20):
            async with Runtime.open(topology, store=open_memory(), adapters=[adapter]) as runtime:
                await runtime.wait_until(lambda: sum(runtime.status().inbox.values()) == 2)
                await trio.sleep(0.3)
                platform.bot.push(photo(2))
                await runtime.wait_until(
                    lambda: runtime.is_quiet and runtime.status().inbox[InboxStatus.DONE] == 3
                )

        assert turns == wanted
        assert [call.text for call in platform.bot.sent(7)] == [f"{len(turn)} parts" for turn in wanted]


@pytest.mark.parametrize("is_confirmed", [True, False])
async def test_a_kill_between_the_pages_loses_nothing_and_it_still_is_one_turn(
    tmp_path: Path, is_confirmed: bool
) -> None:
    """Where the first page was not confirmed, all of it comes again."""

    def start() -> AbstractContextManager[Running]:
        return start_forked("tests.field.album_bot", str(tmp_path), platform.server.base)

    def first_life() -> None:
        with start() as running:
            assert running.stdout.readline() == "page stored\n"
            running.kill()
        assert running.returncode == -signal.SIGKILL

    async with open_platform() as platform:
        for number in (0, 1):
            platform.bot.push(photo(number))
        if not is_confirmed:
            platform.bot.add_fault(Fault(method="getUpdates", kind="drop", after=1, times=-1))
        await trio.to_thread.run_sync(first_life)
        assert platform.bot.waiting == 2 or is_confirmed
        platform.bot.forget_faults()
        await trio.sleep(0.3)
        platform.bot.push(photo(2))
        with start() as again:
            with trio.fail_after(30):
                await platform.bot.wait_sent(1)
            again.send_signal(signal.SIGTERM)
            said, _ = await trio.to_thread.run_sync(again.communicate, 30)
        assert again.returncode == 0
        assert [call.text for call in platform.bot.sent()] == ["3 parts"]

    assert [json.loads(line) for line in said.splitlines() if line != "page stored"] == [list(CAPTIONS)]
    with apsw.Connection(str(tmp_path / "bot.db"), flags=apsw.SQLITE_OPEN_READONLY) as database:
        assert (
            database.execute("SELECT status, claim FROM inbox ORDER BY seq").fetchall() == [("done", 1)] * 3
        )
