"""Many dead letters at once, as an API: requeue by fields, purge by age."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from shardline import BusMessage, Context, Permanent, Topology
from shardline.actors.errors import Code, Permanence
from shardline.adapters.base import NotSent
from shardline.testing import Harness


def bot() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if ctx.generation == 0:
            raise Permanent(f"x.{message.payload.text}")
        ctx.reply(message.payload.text)

    return topology


async def six_dead(harness: Harness) -> None:
    for number in range(3):
        await harness.say(f"fake:{number}", "red")
        await harness.say(f"fake:{number}", "blue")
    await harness.settle()
    assert len(harness.dead()) == 6


async def test_dead_sends_are_requeued_by_their_fields(autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def echo(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    async with Harness(topology) as harness:
        codes = [Code.RECIPIENT_BLOCKED, Code.NO_ACCESS, Code.RECIPIENT_BLOCKED]
        for number, code in enumerate(codes):
            harness.channel("fake").script(NotSent(code, Permanence.PERMANENT))
            await harness.say(f"fake:{number}", f"text {number}")
            await harness.settle()
        outbox = harness.runtime.outbox

        assert await outbox.requeue_where(code="RECIPIENT_BLOCKED", key="fake:1") == 0
        assert await outbox.requeue_where(code="RECIPIENT_BLOCKED", limit=1) == 1
        await harness.settle()
        # The newest first.
        assert [harness.sent(f"fake:{number}") for number in range(3)] == [[], [], ["text 2"]]
        assert await outbox.requeue_where(channel="fake") == 2
        await harness.settle()
        assert [harness.sent(f"fake:{number}") for number in range(3)] == [["text 0"], ["text 1"], ["text 2"]]
        assert await outbox.requeue_where() == 0


async def test_requeue_where_takes_what_fits_every_field(autojump_clock: MockClock) -> None:
    async with Harness(bot()) as harness:
        await six_dead(harness)
        letters = harness.runtime.dead_letters

        assert await letters.requeue_where(own_code="x.red", key="fake:9") == 0
        assert await letters.requeue_where(own_code="x.red", channel="fake", limit=2) == 2
        await harness.settle()
        # The newest first.
        assert [harness.sent(f"fake:{number}") for number in range(3)] == [[], ["red"], ["red"]]
        assert await letters.requeue_where(own_code="x.red") == 1
        assert await letters.requeue_where(key="fake:0") == 1
        await harness.settle()
        assert harness.sent("fake:0") == ["red", "blue"]
        assert await letters.requeue_where(topic="chat.message") == 2
        assert await letters.requeue_where() == 0


@pytest.mark.parametrize("store", ["memory", "sqlite-inline"])
async def test_purge_is_inclusive_and_counts(autojump_clock: MockClock, store: str) -> None:
    async with Harness(bot(), store="memory" if store == "memory" else "sqlite-inline") as harness:
        await six_dead(harness)
        letters = harness.runtime.dead_letters
        times = sorted(row.record.dead_at_us or 0 for row in letters.list())

        assert await letters.purge(times[0] - 1) == 0
        assert await letters.purge(times[2]) == sum(time <= times[2] for time in times)
        assert await letters.purge(times[-1]) == sum(time > times[2] for time in times)
        assert letters.list() == []
        assert harness.dead() == []
