"""Times without a zone are refused; on the nights when clocks change a daily job runs once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Cron, Topology
from shardline.testing import Harness


async def test_a_naive_time_is_a_typed_error(autojump_clock: MockClock) -> None:
    errors: list[BusError] = []
    topology = Topology()

    @topology.on("chat.message")
    async def handle(ctx: Context, message: BusMessage) -> None:
        with pytest.raises(BusError) as caught:
            ctx.schedule("x", at=datetime(2026, 10, 25, 2, 30))  # noqa: DTZ001 (what is refused)
        errors.append(caught.value)

    async with Harness(topology) as bot:
        await bot.say("fake:1", "go")
        await bot.settle()
        assert bot.runtime.timers.list() == []
    [error] = errors
    assert error.code is Code.INVALID_MESSAGE
    assert "aware datetime" in error.message


@pytest.mark.parametrize(
    ("day", "runs"),
    [
        # 02:30 comes twice: the first one counts.
        (datetime(2026, 10, 25, tzinfo=UTC), [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]),
        # 02:30 is skipped: it is made up for when the gap ends, at 03:00.
        (datetime(2026, 3, 29, tzinfo=UTC), [datetime(2026, 3, 29, 1, 0, tzinfo=UTC)]),
    ],
)
async def test_half_past_two_in_berlin_comes_once_a_day(
    day: datetime, runs: list[datetime], autojump_clock: MockClock
) -> None:
    seen: list[str] = []
    topology = Topology()
    topology.every(
        "report",
        Cron.daily("02:30", zone="Europe/Berlin"),
        "report",
        topic="chat.message",
        key="fake:1",
    )

    @topology.on("chat.message")
    async def handle(ctx: Context, message: BusMessage) -> None:
        seen.append(message.payload.sent_at)

    start_us = round((day - timedelta(hours=6)).timestamp()) * 1_000_000
    async with Harness(topology, start_us=start_us) as bot:
        # From 19:00 or 20:00 of the evening before to the same time of that day.
        await bot.settle(until_s=86_400)

    assert seen == [f"{run:%Y-%m-%dT%H:%M:%SZ}" for run in runs]
