"""A broadcast fills the window of its shards: answers to people do not wait behind it."""

from __future__ import annotations

from trio.testing import MockClock

from shardline import BusMessage, Context, Topology
from shardline.adapters.base import ChannelCaps, Rate, RateLimits
from shardline.testing import FakeChannel, Harness

CONVERSATIONS = 800


async def test_an_answer_goes_out_next_however_full_the_window_is(autojump_clock: MockClock) -> None:
    """Windows of 4 rows, 50 rows in bulk for each; the answers are to conversations nobody has seen yet."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text != "all":
            ctx.reply(message.payload.text)
            return
        for number in range(CONVERSATIONS):
            ctx.send("fake", f"fake:all-{number}", "news", bulk=True)

    channel = FakeChannel("fake", ChannelCaps(concurrency=4, limits=RateLimits(bot=Rate(10.0))))
    async with Harness(topology, channels=[channel], max_inflight=64) as bot:
        await bot.say("fake:boss", "all")
        await bot.settle(until_s=5)
        before = len(channel.attempts)
        assert 0 < before < CONVERSATIONS / 2
        waits: list[int] = []
        for number in range(40):
            # Behind all others in the order of keys, and before them.
            key = f"fake:{'z' if number % 2 else 'A'}-{number}"
            said_at = len(channel.attempts)
            await bot.say(key, "hi")
            await bot.settle(until_s=0.5)
            waits.append([out.conversation_key for out in channel.attempts[said_at:]].index(key))
        await bot.settle()

    assert max(waits) <= 1, "at most the one that stood first already"
    assert len(channel.delivered) == CONVERSATIONS + 40
