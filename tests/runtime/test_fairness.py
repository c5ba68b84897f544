"""Many conversations beside stuck ones: latency, concurrency and memory, on the real runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog.testing
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, RetryPolicy, Runtime, Topology, shard_of
from shardline.actors.clock import FakeClock
from shardline.runtime.turn import QueuedRow
from shardline.storage.records import InboxStatus
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel, Harness

SHARDS = 16


def key_on(shard: int) -> str:
    return next(key for key in map("fake:stuck-{}".format, range(10_000)) if shard_of(key, SHARDS) == shard)


@pytest.mark.parametrize(
    ("concurrency", "alone_s", "beside_s"),
    [
        pytest.param(128, 0.1, 0.1, id="places for all"),
        # A turn that is stuck keeps its place: 64 at once, or 48, are two rounds or three of a tenth of a second.
        pytest.param(64, 0.2, 0.3, id="fewer places"),
    ],
)
async def test_a_stuck_conversation_in_every_shard_costs_its_place_and_nothing_else(
    autojump_clock: MockClock, concurrency: int, alone_s: float, beside_s: float
) -> None:
    """16 lanes are blocked for ever, one a shard; where there are places, 100 others have the latency they had."""
    stuck = {key_on(shard) for shard in range(SHARDS)}
    topology = Topology()

    @topology.on("chat.message", timeout_s=float("inf"), concurrency=concurrency)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.conversation_key in stuck:
            await trio.sleep_forever()
        await trio.sleep(0.1)
        ctx.reply("here")

    async def worst_latency_s(blocked: set[str]) -> float:
        async with Harness(topology, store="sqlite-inline") as bot:
            for key in sorted(blocked):
                await bot.say(key, "block")
            await bot.advance(1)
            assert bot.runtime.status().running_turns == len(blocked)
            began_s = trio.current_time()
            for number in range(100):
                await bot.say(f"fake:other-{number}", "hello")
            await bot.runtime.wait_until(
                lambda: all(bot.sent(f"fake:other-{number}") for number in range(100))
            )
            took_s = trio.current_time() - began_s
            bot.runtime.request_stop()
            bot.runtime.request_stop()
            return took_s

    assert await worst_latency_s(set()) == pytest.approx(alone_s)
    assert await worst_latency_s(stuck) == pytest.approx(beside_s)


@pytest.mark.parametrize("concurrency", [1, 2, 7])
async def test_the_concurrency_of_a_topic_is_reached_and_never_passed(
    autojump_clock: MockClock, concurrency: int
) -> None:
    topology = Topology()
    at_once: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def work(topic: str) -> None:
        at_once[topic] += 1
        most[topic] = max(most[topic], at_once[topic])
        await trio.sleep(0.01)
        at_once[topic] -= 1

    @topology.on("chat.message", concurrency=concurrency)
    async def answer(ctx: Context, message: BusMessage) -> None:
        await work("chat.message")
        if int(message.payload.text) % 5 == 0 and ctx.failures == 0:
            raise ValueError("once")
        ctx.publish("dm.reply.v1", "next")

    @topology.on("dm.reply.v1", concurrency=3)
    async def follow(ctx: Context, message: BusMessage) -> None:
        await work("dm.reply.v1")

    async with Harness(topology, max_inflight=32) as bot:
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(bot.say, f"fake:{number % 40}", str(number))
        await bot.settle(until_s=3_600)

        assert bot.runtime.status().inbox[InboxStatus.DONE] == 400
        assert most == {"chat.message": concurrency, "dm.reply.v1": 3}


@pytest.mark.long
async def test_five_thousand_conversations_in_back_off_are_not_held_in_memory(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory stays within twice `max_inflight` messages, also where every conversation waits for its next try."""
    max_inflight, conversations = 64, 5_000
    alive, most = 0, 0
    made: Callable[..., None] = vars(QueuedRow)["__init__"]

    def note(self: QueuedRow, *args: object, **kwargs: object) -> None:
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        made(self, *args, **kwargs)

    def forget(_: QueuedRow) -> None:
        nonlocal alive
        alive -= 1

    monkeypatch.setattr(QueuedRow, "__init__", note)
    monkeypatch.setattr(QueuedRow, "__del__", forget, raising=False)
    topology = Topology()

    @topology.on(
        "chat.message", retry=RetryPolicy(max_retries=3, base_delay_s=600, max_delay_s=600, jitter="none")
    )
    async def answer(ctx: Context, message: BusMessage) -> None:
        if ctx.failures == 0:
            raise ConnectionError("not now")
        ctx.reply("late")

    channel, clock = FakeChannel(), FakeClock()
    store = open_sqlite(tmp_path / "bot.db", mode="inline", durability="normal", clock=clock)
    with structlog.testing.capture_logs():
        async with Runtime.open(
            topology, store=store, adapters=[channel], clock=clock, max_inflight=max_inflight
        ) as runtime:
            async with trio.open_nursery() as nursery:
                for number in range(conversations):
                    nursery.start_soon(channel.say, f"{number}", "hi")
            await runtime.wait_until(lambda: runtime.counters.get("retried", 0) == conversations)
            await trio.sleep(1)
            assert runtime.status().inbox[InboxStatus.FAILED] == conversations
            assert runtime.status().tokens_free == max_inflight
            assert alive <= max_inflight
            assert await channel.say("fresh", "hi")

            with trio.fail_after(3_600):
                await runtime.wait_until(lambda: runtime.is_quiet)
            assert len(channel.delivered) == conversations + 1
    assert most <= 2 * max_inflight
