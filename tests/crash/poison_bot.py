"""A bot that one message kills: `python poison_bot.py FOLDER`. Prints the texts it answered, once all has ended."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.testing import FakeChannel

GOOD_LANES = 64
topology = Topology()


@topology.on("chat.message", concurrency=128)
async def answer(ctx: Context, message: BusMessage) -> None:
    if message.payload.text == "boom":
        await trio.sleep(0.05)
        os._exit(137)
    await trio.sleep(0.1)
    ctx.reply(message.payload.text)


async def main(folder: Path) -> None:
    channel = FakeChannel("fake")
    async with Runtime.open(
        topology, store=folder / "bot.db", adapters=[channel], durability="normal"
    ) as runtime:
        async with trio.open_nursery() as nursery:
            texts = {f"good-{n}": f"good {n}" for n in range(GOOD_LANES)} | {"bad": "boom"}
            for address, text in texts.items():
                say = partial(channel.say, address, text, platform_message_id=f"{address}:1")
                nursery.start_soon(say)
        await channel.say("bad", "after", platform_message_id="bad:2")
        with trio.fail_after(20):
            await runtime.wait_until(lambda: runtime.is_quiet)
        dead = [
            [row.message.payload.text, row.record.errors[-1].code, row.record.blames]
            for row in runtime.dead_letters.list()
        ]
        sent = sorted(row.content.text for row in runtime.outbox.list(limit=1000))
        print(json.dumps({"dead": dead, "sent": sent}))


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
