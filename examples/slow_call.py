"""A slow call inside a turn: a note at once, the answer kept, so that a crash never pays for it twice."""

import logging

import structlog
import trio

from shardline import BusMessage, Context, Topology
from shardline.testing import Harness, run

topology = Topology()
calls: list[str] = []


async def ask_model(text: str, *, idempotency_key: str) -> str:
    await trio.sleep(20)
    calls.append(idempotency_key)
    return text.upper()


@topology.on("chat.message", timeout_s=120)
async def answer(ctx: Context, message: BusMessage) -> None:
    text, key = message.payload.text, ctx.step_key("model")
    await ctx.send_now("note", "thinking …")
    said = await ctx.step("model", lambda: ask_model(text, idempotency_key=key))
    print(f"run {ctx.claim} has {said!r}")
    if ctx.claim == 1:
        await trio.sleep(60)  # here the process dies
    ctx.reply(said)


async def main() -> None:
    async with Harness(topology, store="sqlite-inline") as bot:
        await bot.say("fake:ann", "hello")
        await bot.advance(1)
        print("after a second:", bot.sent("fake:ann"))
        await bot.advance(30)
        await bot.crash()
        await bot.settle()
        print("in the end:", bot.sent("fake:ann"))
        print("calls made:", len(calls))


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    run(main)
