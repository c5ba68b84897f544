"""Things that arrive later: a reminder after an hour, one that is cancelled, and a daily job by Berlin's clocks."""

import logging
from datetime import UTC, datetime

import structlog

from shardline import BusMessage, Context, Cron, Topology
from shardline.testing import Harness, run

topology = Topology()
topology.every(
    "report",
    Cron.daily("02:30", zone="Europe/Berlin"),
    "/report",
    topic="chat.message",
    key="fake:boss",
)


@topology.on("chat.message")
async def answer(ctx: Context, message: BusMessage) -> None:
    text = message.payload.text
    if text.startswith("/later "):
        ctx.state["reminder"] = ctx.schedule("reminder: " + text.removeprefix("/later "), after_s=3600)
    elif text == "/never mind":
        was_set = ctx.cancel(str(ctx.state["reminder"]))
        ctx.reply("forgotten" if was_set else "too late")
    else:
        ctx.reply(f"{message.payload.sent_at[11:16]} {text}")


async def main() -> None:
    # The evening before Berlin's clocks skip the hour from two to three.
    evening = datetime(2026, 3, 28, 20, 0, tzinfo=UTC)
    async with Harness(topology, start_us=round(evening.timestamp()) * 1_000_000) as bot:
        await bot.say("fake:ann", "/later water the plants")
        await bot.say("fake:bob", "/later buy a cake")
        await bot.settle()
        await bot.advance(1800)
        await bot.say("fake:bob", "/never mind")
        await bot.settle(until_s=86_400)
        for chat in ("ann", "bob", "boss"):
            print(chat, bot.sent(f"fake:{chat}"))


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    run(main)
