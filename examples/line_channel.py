"""A channel of one's own: a text file in, a text file out; the second run goes on where the first one stood."""

import tempfile
from pathlib import Path

import attrs
import structlog
import trio

from shardline import BusMessage, Code, Context, Permanence, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Edge, Inbound, NotSent, Outbound, Sent, Uncertain

topology = Topology()


@topology.on("chat.message")
async def echo(ctx: Context, message: BusMessage) -> None:
    ctx.reply(message.payload.text.upper())


@attrs.frozen
class Lines:
    folder: Path
    name, prefix, caps = "lines", "lines", ChannelCaps(reconciles=True)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        lines = enumerate(line.split(": ", 1) for line in (self.folder / "in.txt").read_text().splitlines())
        for number, (chat, text) in list(lines)[int(edge.fact("next") or 0) :]:
            inbound = Inbound(platform_message_id=str(number), address=chat, text=text)
            await edge.accept(inbound, facts={"next": str(number + 1)})  # returns after the commit of both

    async def send(self, out: Outbound) -> Sent | Uncertain:
        try:
            with (self.folder / "out.txt").open("a") as file:
                file.write(f"{out.idempotency_key} {out.address}: {out.text}\n")
            return Sent(None)
        except OSError as error:
            return Uncertain(type(error).__name__)

    async def reconcile(self, out: Outbound) -> Sent | NotSent:
        sink = self.folder / "out.txt"
        is_there = sink.exists() and f"\n{out.idempotency_key} " in "\n" + sink.read_text()
        return Sent(None) if is_there else NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)


async def main(folder: Path) -> None:
    for log in ("ann: hello\n", "ann: hello\nann: still there?\n"):
        (folder / "in.txt").write_text(log)
        async with Runtime.open(topology, store=folder / "bot.db", adapters=[Lines(folder)]) as runtime:
            await runtime.wait_drained()
            print("accepted in this run:", runtime.status().run["accepted"])
    print(*(line.partition(" ")[2] for line in (folder / "out.txt").read_text().splitlines()), sep="\n")


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with tempfile.TemporaryDirectory() as name:
        trio.run(main, Path(name))
