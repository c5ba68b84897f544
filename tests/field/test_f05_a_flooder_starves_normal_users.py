"""F5, outbound: the answers to a flood do not hold up the answer to somebody else."""

import itertools

import pytest
import trio

from shardline import BusMessage, Context, Topology
from shardline.adapters.base import ChannelCaps, Rate, RateLimits
from shardline.testing import Harness
from tests.kits.timed_channel import TimedChannel


@pytest.mark.long
async def test_one_of_another_chat_leaves_before_the_20th_answer_to_the_flooder(
    autojump_clock: trio.abc.Clock,
) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(f"re: {message.payload.text}")

    channel = TimedChannel(caps=ChannelCaps(limits=RateLimits(bot=Rate(30.0))))
    async with Harness(topology, channels=[channel], store="sqlite-inline") as bot:
        for number in range(5_000):
            await bot.say("fake:7", str(number))
            if number == 4_000:
                await bot.say("fake:8", "hello")
        await bot.settle(until_s=600)

    at = channel.at("8")[0]
    before = sum(when <= at for when in channel.at("7"))
    assert before < 20
    times = [when for when, _, _ in channel.wire]
    assert all(later - earlier >= 1 / 30 - 0.002 for earlier, later in itertools.pairwise(times))
    assert len(channel.at("7")) == 5_000
