"""F22: nothing overtakes a send that waits for its next try. F23: one that gave up lets the next one go."""

import trio

from shardline import BusMessage, Code, Context, Permanence, Topology
from shardline.adapters.base import NotSent
from shardline.testing import Harness
from tests.kits.timed_channel import TimedChannel

BUSY = NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT, text="503")
NEVER = NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT, text="400")


def words() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        for word in message.payload.text.split():
            ctx.reply(word)

    return topology


async def test_f22_two_times_503_hold_their_own_chat_alone(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(answers={"m1": [BUSY, BUSY]})
    async with Harness(words(), channels=[channel]) as bot:
        await bot.say("fake:A", "m1 m2")
        await bot.say("fake:B", "m3")
        await bot.settle()

    assert [text for _, to, text in channel.wire if to == "A"] == ["m1", "m1", "m1", "m2"]
    assert channel.at("B") == [0]
    assert channel.at("A")[-1] > 0.1, "it did wait"


async def test_f23_a_dead_head_releases_the_next_in_one_go(autojump_clock: trio.abc.Clock) -> None:
    channel = TimedChannel(answers={"m1": [NEVER]})
    async with Harness(words(), channels=[channel]) as bot:
        await bot.say("fake:A", "m1 m2")
        await bot.settle()
        rows = bot.outbox("fake:A")

    assert channel.wire == [(0, "A", "m1"), (0, "A", "m2")]
    assert [row.dead_at_us is not None for row in rows] == [True, False]
    assert rows[1].status == "sent"
