"""A bot in a process of its own: `python order_bot.py FOLDER`. Reads the same eight updates at every start.

Each handled text is a line of its output and of `handled` in the folder; each send is a line of `sent`.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import attrs
import structlog
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.errors import Code, Permanence
from shardline.adapters.base import ChannelCaps, Edge, Inbound, NotSent, Outbound, SendOutcome, Sent

UPDATES = range(500, 508)
CHAT = "4201"


def work_s(text: str) -> float:
    """The first takes the longest."""
    return (9 - int(text)) * 0.02


def updates() -> list[Inbound]:
    """The backlog: texts 1 to 8 of one chat."""
    return [
        Inbound(platform_message_id=str(update), address=CHAT, text=str(number))
        for number, update in enumerate(UPDATES, 1)
    ]


@attrs.define
class Chat:
    """A channel that says the backlog at every start, as a platform that was never answered does."""

    folder: Path
    name: str = "telegram"
    prefix: str = "tg"
    caps: ChannelCaps = ChannelCaps(reconciles=True)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        for update in updates():
            await edge.accept(update)

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        with (self.folder / "sent").open("a") as sent:
            sent.write(f"{out.idempotency_key} {out.text}\n")
        return Sent(None)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        sent = self.folder / "sent"
        if sent.exists() and f"{out.idempotency_key} " in sent.read_text():
            return Sent(None)
        return NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)


async def main(folder: Path) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.sleep(work_s(message.payload.text))
        with (folder / "handled").open("a") as handled:
            handled.write(message.payload.text + "\n")
        print(message.payload.text, flush=True)
        ctx.reply(message.payload.text)

    async with Runtime.open(topology, store=folder / "bot.db", adapters=[Chat(folder)]) as runtime:
        with trio.fail_after(20):
            await runtime.wait_drained()


if __name__ == "__main__":
    # Its output is what it handled, and no log.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    trio.run(main, Path(sys.argv[1]))
