"""Schedules and the wall clock: set back, wrong by years, and two bots whose clocks differ."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Cron, Runtime, Topology
from shardline.actors.clock import FakeClock
from shardline.runtime.defaults import TIMER_CHECK_S
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel, Harness

US = 1_000_000
DAY_S = 86_400
EVENING = datetime(2026, 6, 1, 20, 0, tzinfo=UTC)
NIGHTS = Cron.daily("02:30", zone="Europe/Berlin")


def wall_us(at: datetime) -> int:
    return round(at.timestamp()) * US


def nightly_bot(seen: list[str]) -> Topology:
    """A report of each night, declared; notes the time it was due."""
    topology = Topology()
    topology.every("report", NIGHTS, "report", topic="chat.message", key="fake:1")

    @topology.on("chat.message")
    async def handle(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "report too":
            ctx.schedule("report", every=NIGHTS)
        else:
            seen.append(message.payload.sent_at)

    return topology


async def set_clock(bot: Harness, at: datetime) -> None:
    """Set the wall clock, which is noticed within half a minute."""
    bot.clock.jump_wall(wall_us(at) - bot.clock.wall_us())
    await bot.advance(TIMER_CHECK_S)
    await bot.settle()


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("store", ["memory", "sqlite-inline"])
async def test_a_bot_that_began_years_ahead_is_not_silent_for_years(
    autojump_clock: MockClock, store: Literal["memory", "sqlite-inline"], is_restarted: bool
) -> None:
    """The machine starts with a wrong clock, runs a night by it, and is then told the time."""
    seen: list[str] = []
    async with Harness(nightly_bot(seen), store=store, start_us=wall_us(EVENING.replace(year=2036))) as bot:
        await bot.say("fake:2", "report too")
        await bot.settle()
        await set_clock(bot, datetime(2036, 6, 2, 1, 0, tzinfo=UTC))
        assert seen == ["2036-06-02T00:30:00Z"] * 2
        if is_restarted:
            bot.clock.jump_wall(wall_us(EVENING) - bot.clock.wall_us())
            await bot.crash()
        await set_clock(bot, EVENING)
        for day in (2, 3):
            await set_clock(bot, datetime(2026, 6, day, 1, 0, tzinfo=UTC))

    assert seen[2:] == ["2026-06-02T00:30:00Z"] * 2 + ["2026-06-03T00:30:00Z"] * 2


@pytest.mark.parametrize("back", [timedelta(minutes=35), timedelta(hours=3), timedelta(days=1, hours=3)])
async def test_a_clock_set_back_over_a_time_does_not_fire_it_again(
    autojump_clock: MockClock, back: timedelta
) -> None:
    seen: list[str] = []
    topology = nightly_bot(seen)
    async with Harness(topology, start_us=wall_us(EVENING)) as bot:
        nights = [datetime(2026, 6, day, 1, 0, tzinfo=UTC) for day in (2, 3, 4)]
        for night in nights[:2]:
            await set_clock(bot, night)
        await set_clock(bot, nights[1] - back)
        for night in nights:
            if night > nights[1] - back:
                await set_clock(bot, night)

    assert seen == [f"2026-06-0{day}T00:30:00Z" for day in (2, 3, 4)]


async def test_two_bots_each_go_by_their_own_clock(autojump_clock: MockClock) -> None:
    """One program, two bots, clocks a year apart; one of them is set in between."""
    seen: dict[str, list[str]] = {"early": [], "late": []}
    late = EVENING.replace(year=2027)
    clocks = {"early": FakeClock(wall_us(EVENING)), "late": FakeClock(wall_us(late))}

    def open_bot(name: str) -> AbstractAsyncContextManager[Runtime]:
        topology = nightly_bot(seen[name])
        store = open_memory(clock=clocks[name])
        return Runtime.open(topology, store=store, adapters=[FakeChannel()], clock=clocks[name])

    async with open_bot("early") as early, open_bot("late") as other:
        for clock in clocks.values():
            clock.jump_wall(5 * 3600 * US)
        await trio.sleep(TIMER_CHECK_S + 1)
        assert seen == {"early": ["2026-06-02T00:30:00Z"], "late": ["2027-06-02T00:30:00Z"]}
        clocks["late"].jump_wall(3 * DAY_S * US)
        await trio.sleep(TIMER_CHECK_S + 1)
        due = {name: bot.status().next_timer_at_us for name, bot in (("early", early), ("late", other))}

    # What the late one slept through comes once.
    assert seen["early"] == ["2026-06-02T00:30:00Z"]
    assert seen["late"] == ["2027-06-02T00:30:00Z", "2027-06-03T00:30:00Z"]
    assert due == {
        "early": wall_us(datetime(2026, 6, 3, 0, 30, tzinfo=UTC)),
        "late": wall_us(datetime(2027, 6, 6, 0, 30, tzinfo=UTC)),
    }
