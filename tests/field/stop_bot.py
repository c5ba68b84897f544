"""A bot that is told to stop: run it with `shardline run`, and in the environment

HOW          what a turn does: `sleep:SECONDS`, `thread` (never ends), `loop` (never gives way)
EDGE         `read`, or `stuck`: the adapter then waits for a thread that never ends
TALK         CONVERSATIONSxMESSAGES, all said at once
LINGER_S     how long a stop waits for what ignores it

It says `turn KEY TEXT` on standard output as each turn begins, `sent` for each answer it has appended to `sink`, and
`reads no more` when a stop has begun.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import trio

from shardline import BusMessage, Context, Topology
from shardline.adapters.base import ChannelCaps, Edge, Inbound, Outbound, SendOutcome, Sent
from shardline.runtime import stop

HOW = os.environ.get("HOW", "sleep:0")
CONVERSATIONS, MESSAGES = map(int, os.environ.get("TALK", "5x2").split("x"))
setattr(stop, "LINGER_S", float(os.environ.get("LINGER_S", "5")))  # noqa: B010 (a process of its own)
topology = Topology()


@topology.on("chat.message", timeout_s=1_000)
async def answer(ctx: Context, message: BusMessage) -> None:
    print(f"turn {message.conversation_key} {message.payload.text}", flush=True)
    if HOW == "thread":
        await trio.to_thread.run_sync(time.sleep, 600)
    while HOW == "loop":
        pass
    await trio.sleep(float(HOW.removeprefix("sleep:")))
    ctx.reply(message.payload.text)


def append(line: str) -> None:
    with Path("sink").open("a") as sink:
        sink.write(line)


class People:
    """All that is said, side by side, in the order of each conversation; the platform repeats it at each start."""

    name = prefix = "people"
    caps = ChannelCaps()

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            async with trio.open_nursery() as nursery:
                for address in range(CONVERSATIONS):
                    nursery.start_soon(self.say, edge, str(address))
            if os.environ.get("EDGE") == "stuck":
                await trio.to_thread.run_sync(time.sleep, 600)
            await trio.sleep_forever()
        finally:
            print("reads no more", flush=True)

    async def say(self, edge: Edge, address: str) -> None:
        for number in range(MESSAGES):
            await edge.accept(
                Inbound(platform_message_id=f"{address}:{number}", address=address, text=str(number))
            )

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        append(f"{out.address} {out.text}\n")
        print("sent", flush=True)
        return Sent(None)


adapters = [People()]
