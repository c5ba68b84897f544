"""A broadcast takes what answers leave: few starts at once, a part of the bucket, and all of it where it is calm."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import structlog
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Rate, RateLimits
from shardline.runtime.alarms import Alarms
from shardline.runtime.defaults import BULK_BURST, BULK_CALM_S
from shardline.runtime.pool import Job, WorkerPool
from shardline.runtime.rates import NO_LIMITS, Chat
from shardline.runtime.send_line import SendLine
from shardline.runtime.shard_outbox import ShardOutbox
from shardline.testing import FakeChannel
from tests.kits.bots import texts_to, until_quiet
from tests.kits.crashes import crash_in


async def _no_work(_: Job) -> None:
    raise AssertionError("no job runs here")


@asynccontextmanager
async def _line(slots: int, limits: RateLimits) -> AsyncGenerator[SendLine[Job]]:
    alarms = Alarms()
    pool: WorkerPool[Job] = WorkerPool(slots, _no_work)
    async with trio.open_nursery() as nursery:
        await nursery.start(alarms.run)
        yield SendLine(pool, limits, Chat, alarms)
        nursery.cancel_scope.cancel()


def _broadcast(line: SendLine[Job], count: int) -> list[int]:
    """Let so many stand in line; the numbers of those that were let go."""
    gone: list[int] = []

    def go(number: int) -> bool:
        gone.append(number)
        return True

    for number in range(count):
        line.wait(f"fake:b{number}", partial(go, number), _never, is_bulk=True)
    return gone


def _never() -> None:
    raise AssertionError("nobody was sent away")


async def test_beside_answers_few_start_and_rest_for_as_long_as_they_took(
    autojump_clock: MockClock,
) -> None:
    async with _line(16, NO_LIMITS) as line:
        assert line.try_take("fake:person", is_bulk=False)
        gone = _broadcast(line, 5)
        assert gone == [0, 1], "an eighth of 16 slots"
        assert line.try_take("fake:other", is_bulk=False), "a person still goes at once"
        await trio.sleep(0.02)
        line.share.give_back()
        assert gone == [0, 1]
        line.share.give_back()
        assert gone == [0, 1], "the starts are on disk, and took 20 ms"
        await trio.sleep(0.015)
        assert gone == [0, 1]
        await trio.sleep(0.01)
        assert gone == [0, 1, 2, 3], "then the next ones go"


async def test_however_many_slots_a_burst_stays_short(autojump_clock: MockClock) -> None:
    async with _line(512, NO_LIMITS) as line:
        assert line.try_take("fake:person", is_bulk=False)
        assert len(_broadcast(line, 100)) == BULK_BURST


async def test_a_store_that_took_nothing_for_long_lets_a_broadcast_rest_no_longer_than_answers_do(
    autojump_clock: MockClock,
) -> None:
    async with _line(16, NO_LIMITS) as line:
        assert line.try_take("fake:person", is_bulk=False)
        gone = _broadcast(line, 5)
        await trio.sleep(60)
        assert line.try_take("fake:person", is_bulk=False)
        line.share.give_back()
        line.share.give_back()
        await trio.sleep(1.1 * BULK_CALM_S)
        assert gone[:4] == [0, 1, 2, 3]


async def test_where_nobody_waits_for_an_answer_a_broadcast_has_every_slot(autojump_clock: MockClock) -> None:
    async with _line(16, NO_LIMITS) as line:
        assert line.try_take("fake:person", is_bulk=False)
        await trio.sleep(1)
        assert _broadcast(line, 40) == list(range(15))


async def test_a_broadcast_leaves_a_quarter_of_the_bucket_to_answers(autojump_clock: MockClock) -> None:
    async with _line(64, RateLimits(bot=Rate(10.0, burst=8))) as line:
        gone = _broadcast(line, 20)
        assert len(gone) == 6
        assert [line.try_take(f"fake:{number}", is_bulk=False) for number in range(3)] == [True, True, False]


async def test_a_broadcast_alone_has_the_whole_rate(autojump_clock: MockClock) -> None:
    async with _line(512, RateLimits(bot=Rate(1_000.0, burst=8))) as line:
        gone = _broadcast(line, 506)
        await trio.sleep(0.5)
        assert len(gone) >= 500, "6 at once, then a thousand a second, a few with each wake-up"


async def test_a_place_survives_its_shard(autojump_clock: MockClock, tmp_path: Path) -> None:
    """With one place for bulk starts, one that is lost with its shard is the end of the broadcast."""
    topology = Topology()

    @topology.on("chat.message")
    async def tell(ctx: Context, message: BusMessage) -> None:
        for number in range(20):
            ctx.send("fake", f"fake:b{number}", "news", bulk=True)

    channel = FakeChannel("fake", ChannelCaps(concurrency=1))
    with structlog.testing.capture_logs(), crash_in(ShardOutbox, "started", at=[5, 6]) as failed:
        async with Runtime.open(
            topology, store=tmp_path / "bus.db", adapters=[channel], mode="inline"
        ) as runtime:
            await channel.say("boss", "all")
            await until_quiet(runtime)
    assert failed == [5, 6]
    assert [texts_to(f"b{number}", channel) for number in range(20)] == [["news"]] * 20
