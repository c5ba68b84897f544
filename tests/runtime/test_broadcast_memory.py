"""A broadcast waits on disk: its size is no size in memory, while people go on chatting."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Edge, Inbound, Outbound, Rate, RateLimits, SendOutcome, Sent
from shardline.runtime.defaults import HUNGRY_LANES, MAX_INFLIGHT, SHARD_COUNT, WARM_LANES
from shardline.storage.sqlite import open_sqlite

CONVERSATIONS = 20_000
EACH_TURN = 500
MIB = 1 << 20


@attrs.define
class Forgetful:
    """A channel that keeps nothing of what it sends but how many there were."""

    name: str = "memory"
    prefix: str = "memory"
    caps: ChannelCaps = ChannelCaps(concurrency=64, limits=RateLimits(bot=Rate(2_000.0, burst=64)))
    edge: Edge | None = None
    in_bulk: int = 0
    answers: int = 0

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.edge = edge
        task_status.started()
        await trio.sleep_forever()

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        if out.address.startswith("all-"):
            self.in_bulk += 1
        else:
            self.answers += 1
        return Sent(None)

    def has_sent(self, count: int) -> bool:
        return self.in_bulk >= count

    async def say(self, address: str, number: int, text: str) -> None:
        assert self.edge is not None
        await self.edge.accept(Inbound(platform_message_id=str(number), address=address, text=text))


def bot() -> Topology:
    """Answers; `all:first` sends to the next conversations in bulk, and tells itself to go on."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        text = message.payload.text
        if not text.startswith("all:"):
            ctx.reply(text)
            return
        first = int(text.removeprefix("all:"))
        for number in range(first, first + EACH_TURN):
            ctx.send("memory", f"memory:all-{number}", "news " * 100, bulk=True)
        if first + EACH_TURN < CONVERSATIONS:
            ctx.publish("chat.message", f"all:{first + EACH_TURN}")

    return topology


@pytest.mark.long
async def test_memory_stays_flat_while_a_broadcast_goes_out(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    channel = Forgetful()
    store = open_sqlite(tmp_path / "bus.db", mode="inline", durability="normal")
    async with Runtime.open(bot(), store=store, adapters=[channel]) as runtime:
        shards = runtime._services.shards  # pyright: ignore[reportPrivateUsage] (what is counted)
        await channel.say("boss", -1, "all:0")
        # All of it is on disk, and everything that a broadcast needs has been made once.
        await runtime.wait_until(lambda: channel.in_bulk > CONVERSATIONS / 4)
        gc.collect()
        said, begun_bytes, most_rows, most_lanes, most_bytes = 0, _resident_bytes(), 0, 0, 0
        while channel.in_bulk < CONVERSATIONS:
            for _ in range(10):
                await channel.say(f"person-{said % 500}", said, "hi")
                said += 1
            await runtime.wait_until(partial(channel.has_sent, min(CONVERSATIONS, channel.in_bulk + 50)))
            rows = sum(len(lane.queue) for shard in shards for lane in shard.outbox.lanes.values())
            most_rows, most_lanes = max(most_rows, rows), max(most_lanes, runtime.status().lanes)
            most_bytes = max(most_bytes, _resident_bytes())
        await runtime.wait_until(lambda: runtime.is_quiet)

    assert channel.in_bulk == CONVERSATIONS
    assert channel.answers == said > 1_000
    assert 0 < most_rows <= 2 * MAX_INFLIGHT
    assert most_lanes <= 2 * SHARD_COUNT * (WARM_LANES + HUNGRY_LANES) + 2 * MAX_INFLIGHT
    assert most_bytes - begun_bytes < 10 * MIB


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS in /proc/self/status")
