"""A bot that is killed with turns running: `python kill_bot.py STORE TURNS LIMIT`.

It takes TURNS conversations with one message each and as many as go in of one more, says so, and stands still.
"""

from __future__ import annotations

import json
import math
import sys
from functools import partial
from pathlib import Path

import structlog.testing
import trio

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from tests.kits.bots import new_message

topology = Topology()
begun, begins = trio.open_memory_channel[None](math.inf)


@topology.on("chat.message", concurrency=256, timeout_s=float("inf"))
async def answer(ctx: Context, message: BusMessage) -> None:
    begun.send_nowait(None)
    await trio.sleep_forever()


async def main(store: str, turns: int, limit: int, *, is_new: bool) -> None:
    with structlog.testing.capture_logs() as lines:
        async with Runtime.open(
            topology, store=store, durability="normal", max_lane_backlog=limit, grace_s=0
        ) as runtime:
            for number in range(turns if is_new else 0):
                await runtime.publish(new_message("hi", key=f"fake:{number}"))
            taken = 0
            try:
                while True:
                    await runtime.publish(new_message("more", key="fake:0"))
                    taken += 1
            except BusError as error:
                if error.code is not Code.QUEUE_FULL:
                    raise
            # Of suspects no more run at once than half of what was at work at the last crash.
            recovered = [line for line in lines if line["event"] == "runtime.recovered"]
            at_once = turns
            if recovered and recovered[0]["suspects"]:
                at_once = max(1, recovered[0]["claimed"] // 2)
            for _ in range(at_once):
                await begins.receive()
            print(json.dumps({"recovered": recovered, "taken": taken}), flush=True)
            await trio.sleep_forever()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    trio.run(partial(main, str(path), int(sys.argv[2]), int(sys.argv[3]), is_new=not path.exists()))
