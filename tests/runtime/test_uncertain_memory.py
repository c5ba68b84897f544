"""Sends whose result nobody knows wait on disk: of those that were asked after in vain a bounded number in memory."""

from __future__ import annotations

from pathlib import Path

import structlog
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, Sent, Uncertain
from shardline.runtime.retry import RetryPolicy
from shardline.storage.records import OutboxState
from shardline.testing import FakeChannel
from tests.kits.bots import until_quiet

SENDS = 400
WINDOW = 2


class Deaf(FakeChannel):
    """A platform that answers no question while it is deaf."""

    is_deaf = True

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        self.lookups.append(out)
        if self.is_deaf:
            raise ConnectionError("no answer")
        return Sent("found")


def news() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def tell(ctx: Context, message: BusMessage) -> None:
        for number in range(SENDS):
            ctx.send("fake", f"fake:all-{number}", "news", bulk=True)

    return topology


def rows_in_memory(runtime: Runtime) -> int:
    """Sends that the lanes of all shards hold."""
    shards = runtime._services.shards  # pyright: ignore[reportPrivateUsage] (what is counted)
    return sum(len(lane.queue) for shard in shards for lane in shard.outbox.lanes.values())


async def test_sends_that_nobody_can_look_up_wait_on_disk(autojump_clock: MockClock, tmp_path: Path) -> None:
    channel = Deaf("fake", ChannelCaps(reconciles=True, concurrency=64))
    channel.script(*[Uncertain("no answer")] * SENDS)
    with structlog.testing.capture_logs():
        async with Runtime.open(
            news(),
            store=tmp_path / "bus.db",
            adapters=[channel],
            mode="inline",
            max_inflight=16 * WINDOW,
            send_retry=RetryPolicy(max_retries=1_000, base_delay_s=60, max_delay_s=60, multiplier=1),
        ) as runtime:
            await channel.say("boss", "all")
            await runtime.wait_until(lambda: len(channel.lookups) > 3 * SENDS)
            assert runtime.status().outbox[OutboxState.UNCERTAIN] == SENDS
            assert rows_in_memory(runtime) <= 16 * 2 * WINDOW
            channel.is_deaf = False
            await until_quiet(runtime, limit_s=3_600)
            assert runtime.status().outbox[OutboxState.SENT] == SENDS


async def test_what_nobody_was_asked_about_yet_is_left_on_disk(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Its row knows nothing that the disk does not."""
    channel = FakeChannel("fake", ChannelCaps(concurrency=64, deduplicates=True))
    channel.script(*[Uncertain("no answer")] * SENDS)
    async with Runtime.open(
        news(),
        store=tmp_path / "bus.db",
        adapters=[channel],
        mode="inline",
        send_retry=RetryPolicy(base_delay_s=600, max_delay_s=600),
    ) as runtime:
        await channel.say("boss", "all")
        await runtime.wait_until(lambda: runtime.status().outbox.get(OutboxState.UNCERTAIN) == SENDS)
        assert rows_in_memory(runtime) == 0
        await until_quiet(runtime, limit_s=36_000)
        assert runtime.status().outbox[OutboxState.SENT] == SENDS
