"""A bot in a process of its own: `python -m tests.field.album_bot FOLDER API_BASE`. Takes albums whole, on Telegram.

It says `page stored` when two parts are on disk, then what each turn saw, a JSON list a line.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import structlog
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.telegram import Telegram
from tests.adapters.telegram.samples import TOKEN

ALBUM_S = 6.0


async def main(folder: Path, api_base: str) -> None:
    topology = Topology()

    @topology.on("chat.message", album_s=ALBUM_S)
    async def answer(ctx: Context, message: BusMessage) -> None:
        print(json.dumps([part.payload.text for part in ctx.messages]), flush=True)
        ctx.reply(f"{len(ctx.messages)} parts")

    adapter = Telegram(TOKEN, api_base=api_base)
    async with Runtime.open(topology, store=folder / "bot.db", adapters=[adapter]) as runtime:
        with trio.fail_after(40):
            await runtime.wait_until(lambda: sum(runtime.status().inbox.values()) >= 2)
            print("page stored", flush=True)
            await runtime.serve(signals=True)


if __name__ == "__main__":
    # Its output is what it saw, and no log.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    trio.run(main, Path(sys.argv[1]), sys.argv[2])
