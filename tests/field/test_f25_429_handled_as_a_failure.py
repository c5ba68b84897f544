"""F25: a 429 is a pause of its scope, and never an attempt."""

import itertools

import trio

from shardline import BusMessage, Code, Context, Permanence, RetryPolicy, Topology
from shardline.adapters.base import NotSent
from shardline.testing import Harness
from tests.kits.timed_channel import TimedChannel


async def test_five_times_429_then_sent_once_with_one_attempt(autojump_clock: trio.abc.Clock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    flood = NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=2, scope="chat")
    channel = TimedChannel(answers={"slow": [flood] * 5})
    async with Harness(topology, channels=[channel], send_retry=RetryPolicy(max_retries=2)) as bot:
        await bot.say("fake:1", "slow")
        await bot.settle(until_s=0.5)
        for number in range(2, 12):
            await bot.say(f"fake:{number}", "other")
        await bot.settle(until_s=1)
        assert sum(text == "other" for _, _, text in channel.wire) == 10
        await bot.settle()
        (row,) = bot.outbox("fake:1")

    assert (row.status, row.attempts) == ("sent", 1)
    times = channel.at("1")
    assert len(times) == 6
    assert all(later - earlier >= 2 for earlier, later in itertools.pairwise(times))
