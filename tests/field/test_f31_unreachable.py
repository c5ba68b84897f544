"""F31: who blocked the bot is asked once; a refused token stops everything and loses nothing."""

from trio.testing import MockClock

from shardline import BusMessage, Code, Context, Permanence, Topology
from shardline.adapters.base import NotSent
from shardline.testing import Harness


def echo() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


async def test_f31_a_403_is_one_request_until_the_user_writes(autojump_clock: MockClock) -> None:
    blocked = NotSent(Code.RECIPIENT_BLOCKED, Permanence.PERMANENT, text="403 bot was blocked by the user")
    async with Harness(echo()) as bot:
        bot.channel("fake").script(blocked)
        send = bot.runtime.sender.send
        first = await send("fake", "fake:7", "news", "k1")
        second = await send("fake", "fake:7", "more news", "k2")
        assert [(one.status, one.code) for one in (first, second)] == [
            ("dead", Code.RECIPIENT_BLOCKED),
            ("dead", Code.RECIPIENT_BLOCKED),
        ]
        assert len(bot.channel("fake").attempts) == 1

        await bot.say("fake:7", "unblocked you")
        await bot.settle()

    assert [out.text for out in bot.channel("fake").attempts] == ["news", "unblocked you"]


async def test_f31_a_401_stops_the_channel_and_its_rows_wait(autojump_clock: MockClock) -> None:
    async with Harness(echo(), store="sqlite-inline") as bot:
        bot.channel("fake").script(NotSent(Code.BAD_TOKEN, Permanence.PERMANENT, text="401"))
        for chat in range(3):
            pending = await bot.runtime.sender.send("fake", f"fake:{chat}", "news", f"k{chat}", timeout_s=1)
            assert pending.status == "pending"
        rows = [row for chat in range(3) for row in bot.outbox(f"fake:{chat}")]
        reads = bot.channel("fake").edge is not None
        reasons = [(reason.word, reason.about) for reason in bot.runtime.health().reasons]
        asked = len(bot.channel("fake").attempts)

        # The next start has a new token.
        await bot.crash()
        await bot.settle()
        sent = [bot.sent(f"fake:{chat}") for chat in range(3)]

    assert (asked, reads) == (1, False), "it reads and sends nothing more"
    assert reasons == [("channel_stopped", "fake")]
    assert sent == [["news"]] * 3
    assert [(row.status, row.attempts, row.dead_at_us) for row in rows] == [("pending", 0, None)] * 3
