"""Bounds that hold to the message while shards crash under publishers: of a conversation, and of a topic's slots."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Literal

import pytest
import structlog.testing
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.runtime.shard import ShardActor
from shardline.runtime.shard_inbox import ShardInbox
from shardline.storage.records import InboxStatus
from tests.kits.bots import new_message, until_quiet
from tests.kits.crashes import Place, crash_in

LIMIT = 20


@pytest.mark.parametrize("kind", ["memory", "file", "thread"])
@pytest.mark.parametrize("seed", range(4))
async def test_a_conversation_takes_exactly_its_bound_whatever_crashes_meanwhile(
    tmp_path: Path, kind: Literal["memory", "file", "thread"], seed: int
) -> None:
    """Publishers go on while the shard crashes, waits and recovers."""
    random_of, go = random.Random(seed), trio.Event()
    topology = Topology()

    @topology.on("chat.message", timeout_s=float("inf"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.conversation_key.startswith("crowd:full"):
            await go.wait()

    taken: list[str] = []

    async def flood(key: str) -> None:
        while True:
            try:
                await runtime.publish(new_message("more", key=key))
            except BusError as error:
                if error.code is not Code.QUEUE_FULL:
                    raise
                return
            taken.append(key)
            await trio.sleep(random_of.random() * 0.02)

    with structlog.testing.capture_logs(), trio.fail_after(60):
        async with Runtime.open(
            topology, store=Place(kind, tmp_path).open(), max_lane_backlog=LIMIT, max_inflight=32
        ) as runtime:
            keys = [f"crowd:full-{number}" for number in range(6)]
            at = sorted(random_of.sample(range(2, 60), 3))
            with crash_in(ShardActor, "_handle_accepted", at=at, after=bool(seed % 2)) as failed:
                async with trio.open_nursery() as nursery:
                    for key in keys:
                        for _ in range(3):
                            nursery.start_soon(flood, key)
            assert failed
            # Only a restart gives claims back: let each lane have its first at work, then fill what that made free.
            await runtime.wait_until(lambda: runtime.status().inbox[InboxStatus.RUNNING] == len(keys))
            async with trio.open_nursery() as nursery:
                for key in keys:
                    nursery.start_soon(flood, key)

            # A restart that comes only now gives claims back once more: those wait in line again, and are counted.
            counts = runtime.status().inbox
            assert counts[InboxStatus.RUNNING] + counts[InboxStatus.QUEUED] == (LIMIT + 1) * len(keys)
            go.set()
            await until_quiet(runtime)
            assert runtime.status().inbox[InboxStatus.DONE] == (LIMIT + 1) * len(keys) == len(taken)
            assert runtime.status().tokens_free == 32


@pytest.mark.parametrize("method", ["turn_ended", "accepted", "claimed"])
async def test_no_topic_runs_more_than_its_concurrency_while_shards_crash(
    autojump_clock: MockClock, tmp_path: Path, method: str
) -> None:
    """With turns over their time, and turns that take their time to end when they are cancelled."""
    at_once, most = 0, 0
    topology = Topology()

    @topology.on("chat.message", concurrency=5, timeout_s=0.05)
    async def answer(ctx: Context, message: BusMessage) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            await trio.sleep(0.2 if ctx.failures == 0 and int(message.payload.text) % 3 == 0 else 0.01)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.03)
            at_once -= 1

    with structlog.testing.capture_logs(), trio.fail_after(600):
        async with Runtime.open(topology, store=Place("file", tmp_path).open(), max_inflight=32) as runtime:
            with crash_in(ShardInbox, method, at=[20, 60, 61]) as failed:
                async with trio.open_nursery() as nursery:
                    for number in range(200):
                        key = f"crowd:{number % 40}"
                        nursery.start_soon(runtime.publish, new_message(str(number), key=key))
                await until_quiet(runtime, limit_s=600)

            assert failed
            assert (at_once, most) == (0, 5)
            assert runtime.status().inbox[InboxStatus.DONE] == 200
            assert runtime.status().tokens_free == 32
