"""A bot in a process of its own, for tests that kill it: `python echo_bot.py FOLDER POINT EMITS [blind]`.

Reads `inbox.jsonl` (one {"key", "id", "text"} a line), sends into `sink.jsonl`, and dies at the fail point if one is
named (`-`: none); `blind`: nobody can ask what was sent. The text `dead` fails for good until it is requeued, `retry`
fails once, `refuse` is not sent at the first try, `emit` publishes to four other conversations, `step` makes a call and
notes it in `calls`, `note` sends a note before it answers, `timer` sets a timer for another conversation. When all is
done it requeues what is dead, waits again and prints the totals.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import attrs
import trio

from shardline import BusMessage, Context, Permanent, RetryPolicy, Runtime, Topology
from shardline.actors.errors import Code, Permanence
from shardline.actors.failpoints import NO_FAILPOINTS, FailPoints
from shardline.adapters.base import ChannelCaps, Edge, Inbound, NotSent, Outbound, SendOutcome, Sent
from shardline.runtime.control.client import send_control
from shardline.runtime.control.verbs import Requeue, RowRef
from shardline.storage.sqlite import open_sqlite

topology = Topology()


@topology.on("chat.message", retry=RetryPolicy(max_retries=2, base_delay_s=0.05, jitter="none"))
async def answer(ctx: Context, message: BusMessage) -> None:
    text = message.payload.text
    turns = ctx.state.get("turns", 0)
    assert isinstance(turns, int)
    ctx.state["turns"] = turns + 1
    if text == "dead" and ctx.generation == 0:
        raise Permanent("x.dead")
    if text == "retry" and ctx.failures == 0:
        raise ValueError("once")
    if text == "emit":
        for other in range(4):
            ctx.publish("chat.message", f"poke {other}", key=f"line:other-{other}")
    if text == "step":
        text = f"{text} {await ctx.step('call', call)}"
    if text == "note":
        await ctx.send_now("note", "note first")
    if text == "timer":
        ctx.schedule("fired", after_s=0, key="line:other-0")
    ctx.reply(f"{turns + 1}: {text}")


def call() -> int:
    """Note the call in the folder; the result is how many there were."""
    path = Path(sys.argv[1]) / "calls"
    with path.open("a") as file:
        file.write("x")
    return path.stat().st_size


@attrs.define
class Lines:
    """Reads and writes lines of the folder; its sink is the truth about what was sent."""

    folder: Path
    name: str = "line"
    prefix: str = "line"
    caps: ChannelCaps = ChannelCaps(reconciles=True)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        for line in (self.folder / "inbox.jsonl").read_text().splitlines():
            item = json.loads(line)
            await edge.accept(Inbound(platform_message_id=item["id"], address=item["key"], text=item["text"]))

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        if out.text.endswith("refuse") and out.attempt == 1:
            return NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT, text="once more")
        with (self.folder / "sink.jsonl").open("a") as sink:
            sink.write(
                json.dumps({"key": out.conversation_key, "id": out.idempotency_key, "text": out.text}) + "\n"
            )
        return Sent(None)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        sink = self.folder / "sink.jsonl"
        lines = sink.read_text().splitlines() if sink.exists() else []
        if any(json.loads(line)["id"] == out.idempotency_key for line in lines):
            return Sent(None)
        return NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)


async def main(folder: Path, point: str, emits: str) -> None:
    store = open_sqlite(
        folder / "bot.db",
        durability="normal",
        shard_count=4,
        emits="relayed" if emits == "relayed" else "atomic",
        failpoints=NO_FAILPOINTS if point == "-" else FailPoints.parse(point),
    )
    quick = RetryPolicy(max_retries=3, base_delay_s=0.05, jitter="none")
    lines = Lines(folder, caps=ChannelCaps(reconciles="blind" not in sys.argv[4:]))
    async with Runtime.open(topology, store=store, adapters=[lines], send_retry=quick) as runtime:
        with trio.fail_after(20):
            await runtime.wait_drained()
            for dead in runtime.dead_letters.list():
                if point.startswith("control"):
                    row = Requeue((RowRef("in", dead.record.id),))
                    send = partial(send_control, folder / "bot.db", row, actor="a person")
                    await trio.to_thread.run_sync(send)
                else:
                    await runtime.dead_letters.requeue(dead.record.id)
            await runtime.wait_drained()
        status = runtime.status()
        print(json.dumps({"inbox": status.inbox, "outbox": status.outbox, "retried": status.retried}))


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3])
