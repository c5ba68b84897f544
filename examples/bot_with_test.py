"""A bot and its tests in one file: a crash and an uncertain send, without a network and without waiting.

`pytest examples/bot_with_test.py` runs the tests; as a program it runs them too and says so.
"""

import logging

import structlog

from shardline import BusMessage, Context, Topology
from shardline.adapters.base import Sent, Uncertain
from shardline.testing import Harness, run

topology = Topology()


@topology.on("chat.message")
async def answer(ctx: Context, message: BusMessage) -> None:
    ctx.reply("you said " + message.payload.text)


def test_a_crash_loses_nothing() -> None:
    async def play() -> None:
        async with Harness(topology, store="sqlite-inline") as bot:
            await bot.say("fake:ann", "one")
            await bot.crash()
            await bot.settle()
            assert [row.state for row in bot.outbox("fake:ann")] == ["sent"]

    run(play)


def test_an_uncertain_reply_waits_for_a_person() -> None:
    async def play() -> None:
        async with Harness(topology, channels=["telegram"]) as bot:
            bot.channel("telegram").script(Uncertain("no answer"), Sent("11"))
            await bot.say("tg:1", "hello")
            await bot.settle()
            [row] = bot.outbox("tg:1")
            assert row.state == "uncertain"
            await bot.resolve(row, "resend")
            await bot.settle()
            assert bot.sent("tg:1") == ["you said hello"]

    run(play)


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for test in (test_a_crash_loses_nothing, test_an_uncertain_reply_waits_for_a_person):
        test()
        print("passed:", test.__name__)
