"""A bot whose platform says the same at each start; run it in a folder, with in the environment

UPDATES      how many updates the platform repeats: texts 1 to N, three conversations
SLOW_S       how long a turn takes
STUCK_SEND   1: a send never ends
ASK          no: nobody can look a send up; else the sink can be asked
CLOCK        still: no time goes by for the bot, so that whatever waits for any waits for ever

It says `opened AT`, `reading`, `turn TEXT AT`, `sending` and `drained`; answers are lines of `sink`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.errors import Code, Permanence
from shardline.adapters.base import ChannelCaps, Edge, Inbound, NotSent, Outbound, SendOutcome, Sent
from shardline.runtime.logs import set_up_logs

UPDATES = int(os.environ.get("UPDATES", "20"))
SLOW_S = float(os.environ.get("SLOW_S", "0"))
CAN_ASK = os.environ.get("ASK") != "no"
IS_STILL = os.environ.get("CLOCK") == "still"
SINK = Path("sink")
topology = Topology()


def say(*words: object) -> None:
    print(*words, flush=True)


def sent() -> list[str]:
    return SINK.read_text().splitlines() if SINK.exists() else []


def append(text: str) -> None:
    with SINK.open("a") as sink:
        sink.write(f"{text}\n")


@topology.on("chat.message", timeout_s=1_000)
async def answer(ctx: Context, message: BusMessage) -> None:
    say("turn", message.payload.text, time.time())
    await trio.sleep(SLOW_S)
    ctx.reply(f"re {message.payload.text}")


class Platform:
    """Takes no acknowledgement."""

    name = prefix = "far"
    caps = ChannelCaps(reconciles=CAN_ASK, send_timeout_s=1_000)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        say("reading")
        for number in range(1, UPDATES + 1):
            await edge.accept(
                Inbound(platform_message_id=str(number), address=str(number % 3), text=str(number))
            )

    async def send(self, out: Outbound) -> SendOutcome:
        say("sending")
        if os.environ.get("STUCK_SEND") == "1":
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        append(out.text)
        return Sent(None)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        return Sent(None) if out.text in sent() else NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)


async def main() -> None:
    set_up_logs()
    say("opened", time.time())
    async with Runtime.open(
        topology,
        store="bot.db",
        adapters=[Platform()],
        durability="normal",
        mode="inline" if IS_STILL else "thread",
    ) as runtime:
        await runtime.wait_drained()
    say("drained")


if __name__ == "__main__":
    trio.run(main, clock=MockClock() if IS_STILL else None)
