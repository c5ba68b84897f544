"""A bot that answers in four parts, in a process of its own: `python parts_bot.py FOLDER POINT MODE`.

The sink (`sink.jsonl`) is the truth about what was sent. Dies at the fail point if one is named (`-`: none). MODE
`split`: the channel finds the second part too long once. MODE `ask`: it gives no answer to the second part, and the bot
leaves the decision that the sink tells as a control record. MODE `leave`: nothing is decided; else what a start finds
uncertain is decided by the sink.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Literal

import attrs
import trio

from shardline import BusMessage, Code, Context, Permanence, RetryPolicy, Runtime, Topology
from shardline.actors.failpoints import NO_FAILPOINTS, FailPoints
from shardline.adapters.base import (
    ChannelCaps,
    Edge,
    Inbound,
    NotSent,
    Outbound,
    SendOutcome,
    Sent,
    Uncertain,
)
from shardline.runtime.control.client import send_control
from shardline.runtime.control.verbs import Resolve, RowRef
from shardline.storage.records import OutboxState
from shardline.storage.sqlite import open_sqlite

topology = Topology()


@topology.on("chat.message")
async def answer(ctx: Context, message: BusMessage) -> None:
    ctx.reply("aaaabxbyccccdddd")


@attrs.define
class Lines:
    """One message in, lines out."""

    folder: Path
    mode: str
    name: str = "line"
    prefix: str = "line"
    caps: ChannelCaps = ChannelCaps(max_text=4)

    def sent(self) -> list[str]:
        sink = self.folder / "sink.jsonl"
        return [json.loads(line) for line in sink.read_text().splitlines()] if sink.exists() else []

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await edge.accept(Inbound(platform_message_id="m", address="c", text="go"))

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        if self.mode == "split" and out.text == "bxby":
            return NotSent(Code.TOO_LARGE, Permanence.PERMANENT, max_text=2)
        with (self.folder / "sink.jsonl").open("a") as sink:
            sink.write(json.dumps(out.text) + "\n")
        return Uncertain("no answer") if self.mode == "ask" and out.text == "bxby" else Sent(None)


async def decide(runtime: Runtime, channel: Lines, store: Path) -> None:
    """Settle what is uncertain, as the sink tells."""
    if channel.mode == "leave":
        return
    for row in runtime.outbox.list(state=OutboxState.UNCERTAIN):
        was_sent = row.content.text in channel.sent()
        decision: Literal["sent", "resend"] = "sent" if was_sent else "resend"
        if channel.mode == "ask":
            verb = Resolve(RowRef("out", row.record.id), decision)
            await trio.to_thread.run_sync(partial(send_control, store, verb, actor="a person"))
        else:
            await runtime.outbox.resolve(row.record.id, decision)


async def main(folder: Path, point: str, mode: str) -> None:
    failpoints = NO_FAILPOINTS if point == "-" else FailPoints.parse(point)
    store = open_sqlite(folder / "bot.db", durability="normal", shard_count=4, failpoints=failpoints)
    channel = Lines(folder, mode)
    retry = RetryPolicy(max_retries=3, base_delay_s=0.05, jitter="none")
    async with Runtime.open(topology, store=store, adapters=[channel], send_retry=retry) as runtime:
        with trio.fail_after(20):
            await runtime.wait_drained()
            await decide(runtime, channel, folder / "bot.db")
            await runtime.wait_drained()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3])
