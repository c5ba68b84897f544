"""A bot that takes albums whole, and dies at a fail point: `python -m tests.crash.album_child FOLDER POINT`.

It reads the three parts of an album at every start, as a platform that was never answered does. `turns` in the folder
has what each turn saw, `sink` what was sent. Its clock is a test's: every process starts at the same moment, however
long the machine takes, and only waiting makes time go by.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import attrs
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.clock import FakeClock
from shardline.actors.errors import Code, Permanence
from shardline.actors.failpoints import NO_FAILPOINTS, FailPoints
from shardline.adapters.base import ChannelCaps, Edge, NotSent, Outbound, SendOutcome, Sent
from shardline.storage.sqlite import open_sqlite
from tests.kits.albums import part


@attrs.define
class Pages:
    """The platform."""

    folder: Path
    name: str = "fake"
    prefix: str = "fake"
    caps: ChannelCaps = ChannelCaps(reconciles=True)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        for number in range(3):
            await edge.accept(part(number))

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        with (self.folder / "sink").open("a") as sink:
            sink.write(f"{out.idempotency_key} {out.text}\n")
        return Sent(None)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        sink = self.folder / "sink"
        if sink.exists() and f"{out.idempotency_key} " in sink.read_text():
            return Sent(None)
        return NotSent(Code.NOT_FOUND, Permanence.TRANSIENT)


async def main(folder: Path, point: str) -> None:
    topology = Topology()

    @topology.on("chat.message", album_s=4)
    async def answer(ctx: Context, message: BusMessage) -> None:
        with (folder / "turns").open("a") as turns:
            turns.write(json.dumps([member.payload.text for member in ctx.messages]) + "\n")
        ctx.reply(f"{len(ctx.messages)} parts")

    failpoints = NO_FAILPOINTS if point == "-" else FailPoints.parse(point)
    clock = FakeClock()
    store = open_sqlite(
        folder / "bot.db",
        durability="normal",
        shard_count=4,
        mode="inline",
        clock=clock,
        failpoints=failpoints,
    )
    async with Runtime.open(topology, store=store, adapters=[Pages(folder)], clock=clock) as runtime:
        with trio.fail_after(20):
            await runtime.wait_drained()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2], clock=MockClock(autojump_threshold=0))
