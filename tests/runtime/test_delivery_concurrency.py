"""How many sends a channel has under way at once is its own: no more than it declares, and no other waits for them."""

from __future__ import annotations

import attrs
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Topology
from shardline.adapters.base import ChannelCaps, Outbound, SendOutcome
from shardline.runtime.defaults import DELIVERY_CONCURRENCY
from shardline.testing import FakeChannel, Harness

CONVERSATIONS = 60


@attrs.define
class Slow(FakeChannel):
    """Takes a second for each send, and counts those under way."""

    under_way: int = 0
    most: int = 0

    async def send(self, out: Outbound) -> SendOutcome:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await trio.sleep(1)
        self.under_way -= 1
        return await super().send(out)


def echo() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


async def test_a_channel_has_as_many_sends_under_way_as_it_declares(autojump_clock: MockClock) -> None:
    slow = Slow("fake", ChannelCaps(concurrency=3))
    async with Harness(echo(), channels=[slow]) as bot:
        begun_s = trio.current_time()
        for number in range(CONVERSATIONS):
            await bot.say(f"fake:{number}", "hi")
        await bot.settle(until_s=600)
        took_s = trio.current_time() - begun_s

    assert slow.most == 3
    assert len(slow.delivered) == CONVERSATIONS
    assert took_s >= CONVERSATIONS / 3


async def test_one_that_declares_nothing_has_the_default(autojump_clock: MockClock) -> None:
    slow = Slow("fake")
    async with Harness(echo(), channels=[slow]) as bot:
        for number in range(CONVERSATIONS):
            await bot.say(f"fake:{number}", "hi")
        await bot.settle(until_s=600)

    assert slow.most == DELIVERY_CONCURRENCY < CONVERSATIONS


async def test_a_channel_whose_workers_are_all_busy_holds_no_other_up(autojump_clock: MockClock) -> None:
    slow, other = Slow("telegram", ChannelCaps(concurrency=1)), FakeChannel("slack")
    async with Harness(echo(), channels=[slow, other]) as bot:
        for number in range(10):
            await bot.say(f"tg:{number + 1}", "hi")
        await bot.say("slack:T1:C1", "hi")
        await bot.settle(until_s=0.5)
        assert len(slow.delivered) == 0
        assert len(other.delivered) == 1, "it did not wait for the first of ten sends of a second each"
        await bot.settle(until_s=600)
    assert len(slow.delivered) == 10
