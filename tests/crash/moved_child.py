"""A Telegram bot whose group moves, and which dies at a fail point.

`python -m tests.crash.moved_child FOLDER API POINT WANTED`: it counts the turns of a conversation and answers
`<turn>: <text>`, to a service message nothing. It ends when WANTED messages are done and nothing is left to send; POINT
`resend` kills nothing and sends at the start what is uncertain once more.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.failpoints import NO_FAILPOINTS, FailPoints
from shardline.adapters.telegram import Telegram
from shardline.storage.records import InboxStatus, OutboxState
from shardline.storage.sqlite import open_sqlite
from tests.adapters.telegram.platform import FREE
from tests.adapters.telegram.samples import TOKEN


async def main(folder: Path, api_base: str, point: str, wanted: int) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        text = message.payload.text
        if not text.startswith("m"):
            return
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        ctx.reply(f"{turns + 1}: {text}")

    failpoints = NO_FAILPOINTS if point in {"-", "resend"} else FailPoints.parse(point)
    store = open_sqlite(folder / "bot.db", durability="normal", shard_count=4, failpoints=failpoints)
    adapter = Telegram(TOKEN, api_base=api_base, limits=FREE, start_wait_s=0)
    async with Runtime.open(topology, store=store, adapters=[adapter]) as runtime:
        with trio.fail_after(40):
            if point == "resend":
                for row in runtime.outbox.list(state=OutboxState.UNCERTAIN):
                    await runtime.outbox.resolve(row.record.id, "resend")
            await runtime.wait_until(
                lambda: runtime.is_quiet and runtime.status().inbox.get(InboxStatus.DONE) == wanted
            )


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
