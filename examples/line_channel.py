"""A channel of one's own: a text file in, a text file out; the second run goes on where the first one stood."""

import tempfile
from logging import WARNING
from pathlib import Path

import attrs
import structlog
import trio

from shardline import BusMessage, Code, Context, Permanence, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Edge, Inbound, NotSent, Outbound, Sent

topology = Topology()


@topology.on("chat.message")
async def echo(ctx: Context, message: BusMessage) -> None:
    ctx.reply(message.payload.text.upper())


@attrs.frozen
class Lines:
    source: Path
    sink: Path
    name, prefix, caps = "lines", "lines", ChannelCaps(reconciles=True)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        start = int(edge.fact("next") or 0)
        for number, line in enumerate(self.source.read_text().splitlines()[start:], start):
            chat, _, text = line.partition(": ")
            inbound = Inbound(platform_message_id=str(number), address=chat, text=text)
            await edge.accept(inbound, facts={"next": str(number + 1)})  # returns after the commit of both

    async def send(self, out: Outbound) -> Sent:
        with self.sink.open("a") as file:
            file.write(f"{out.idempotency_key} {out.address}: {out.text}\n")
        return Sent(None)

    async def reconcile(self, out: Outbound) -> Sent | NotSent:
        is_there = self.sink.exists() and f"{out.idempotency_key} " in self.sink.read_text()
        return Sent(None) if is_there else NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)


async def main(folder: Path) -> None:
    lines = Lines(folder / "in.txt", folder / "out.txt")
    for log in ("ann: hello\n", "ann: hello\nann: still there?\n"):
        lines.source.write_text(log)
        async with Runtime.open(topology, store=folder / "bot.db", adapters=[lines]) as runtime:
            await runtime.wait_drained()
            print("accepted in this run:", runtime.status().run["accepted"])
    print(*(line.partition(" ")[2] for line in lines.sink.read_text().splitlines()), sep="\n")


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(WARNING))
    with tempfile.TemporaryDirectory() as name:
        trio.run(main, Path(name))
