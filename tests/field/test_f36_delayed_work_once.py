"""Delayed work is no claim that runs out: what is due in 24 h is sent once, then."""

from __future__ import annotations

from trio.testing import MockClock

from shardline import BusMessage, Context, Topology
from shardline.testing import Harness

DAY_S = 86_400
STEP_S = 600


async def test_due_in_24_hours_is_sent_once_at_its_time(autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def remind(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "remind me":
            ctx.schedule("it is time", after_s=DAY_S)
        else:
            ctx.reply(message.payload.text)

    async with Harness(topology) as bot:
        await bot.say("fake:1", "remind me")
        await bot.settle()
        begun_us = bot.clock.wall_us()
        for step in range(1, 2 * DAY_S // STEP_S + 1):
            await bot.advance(STEP_S)
            await bot.settle()
            sent = bot.sent("fake:1")
            assert sent == ([] if step * STEP_S < DAY_S else ["it is time"]), step
        [row] = bot.outbox("fake:1")
        assert row.claim == 1
        assert row.created_at_us - begun_us == DAY_S * 1_000_000
