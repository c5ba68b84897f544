"""Publishing from a program: what a receipt says, and what is refused."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import (
    BusError,
    BusMessage,
    Code,
    Context,
    Direction,
    Event,
    MessageEnvelope,
    Topology,
)
from shardline.actors.identifiers import new_uuid7
from shardline.storage.records import OutboxState
from shardline.testing import Harness


def message(
    text: str, *, key: str = "fake:a", idem: str | None = None, topic: str = "chat.message"
) -> BusMessage:
    message_id = new_uuid7()
    return BusMessage(
        id=message_id,
        direction=Direction.INBOUND,
        channel="fake",
        topic=topic,
        conversation_key=key,
        idempotency_key=idem or message_id,
        correlation_id=message_id,
        payload=MessageEnvelope(
            message_id=message_id, text=text, sent_at="2026-01-01T00:00:00Z", session_id=new_uuid7()
        ),
        created_at_us=1_767_225_600_000_000,
    )


def echo() -> Topology:
    topology = Topology()
    topology.topic("order.shipped", partitions=3)

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


async def test_a_receipt_names_the_place_and_a_repeat_the_first_one(autojump_clock: MockClock) -> None:
    async with Harness(echo()) as bot:
        first = await bot.runtime.publish_validated(message("hi", idem="k1"))
        second = await bot.runtime.publish_validated(message("ho", idem="k2"))
        repeat = await bot.runtime.publish_validated(message("hi", idem="k1"))
        other = await bot.runtime.publish_validated(message("another text", idem="k1"))
        await bot.settle()

        assert (first.duplicate, first.offset, second.offset) == (False, 0, 1)
        assert repeat == attrs.evolve(first, duplicate=True)
        assert other == attrs.evolve(first, duplicate=True, conflict=True)
        assert bot.sent("fake:a") == ["hi", "ho"]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (message("hi", topic="dm.reply.v1"), Code.NO_SUBSCRIBER),
        (message("hi", topic="no.such.topic"), Code.INVALID_TOPIC),
        (message("hi", topic="order.shipped"), Code.INVALID_TOPIC),
        (message(""), Code.INVALID_MESSAGE),
        (attrs.evolve(message("hi"), idempotency_key=""), Code.IDEMPOTENCY_KEY_REQUIRED),
        (message("hi", key="fake: a"), Code.INVALID_MESSAGE),
    ],
)
async def test_what_is_refused_is_not_stored(autojump_clock: MockClock, bad: BusMessage, code: Code) -> None:
    async with Harness(echo()) as bot:
        with pytest.raises(BusError) as refused:
            await bot.runtime.publish_validated(bad)

        assert refused.value.code is code
        assert bot.runtime.messages.list() == []
        assert bot.runtime.status().tokens_free == 1024


async def test_an_outbound_message_is_sent_once(autojump_clock: MockClock) -> None:
    out = attrs.evolve(message("news", idem="n1"), direction=Direction.OUTBOUND)
    async with Harness(echo()) as bot:
        receipt = await bot.runtime.publish(out)
        again = await bot.runtime.publish(out)
        await bot.settle()

        assert again.duplicate
        assert again.event_id == receipt.event_id
        assert bot.sent("fake:a") == ["news"]
        assert bot.outbox("fake:a")[0].state is OutboxState.SENT
        with pytest.raises(BusError) as mismatch:
            await bot.runtime.publish(attrs.evolve(out, conversation_key="fake:b"))
        assert mismatch.value.code is Code.IDENTITY_MISMATCH
        with pytest.raises(BusError) as unknown:
            await bot.runtime.publish(attrs.evolve(out, conversation_key="else:b", channel=None))
        assert unknown.value.code is Code.UNKNOWN_CHANNEL


async def test_events_of_a_key_share_a_partition_and_dense_offsets(autojump_clock: MockClock) -> None:
    async with Harness(echo()) as bot:
        receipts = [
            await bot.runtime.publish(
                Event(id=new_uuid7(), ts_us=1, topic="order.shipped", key="k", payload={"n": n})
            )
            for n in range(5)
        ]
        assert len({receipt.partition for receipt in receipts}) == 1
        assert [receipt.offset for receipt in receipts] == list(range(5))
        with pytest.raises(BusError) as nan:
            await bot.runtime.publish(
                Event(id=new_uuid7(), ts_us=1, topic="order.shipped", payload={"x": float("nan")})
            )
        assert nan.value.code is Code.INVALID_MESSAGE
        assert "$.x" in str(nan.value)


async def test_only_a_time_limit_makes_queue_full(autojump_clock: MockClock) -> None:
    topology = Topology()
    go = trio.Event()

    @topology.on("chat.message")
    async def wait(ctx: Context, message: BusMessage) -> None:
        await go.wait()

    async with Harness(topology, max_inflight=2) as bot:
        await bot.runtime.publish(message("1", key="fake:a"))
        await bot.runtime.publish(message("2", key="fake:b"))
        with pytest.raises(BusError) as full:
            await bot.runtime.publish(message("3", key="fake:c"), timeout_s=1)
        assert full.value.code is Code.QUEUE_FULL

        async with trio.open_nursery() as nursery:
            nursery.start_soon(bot.runtime.publish, message("3", key="fake:c"))
            await trio.testing.wait_all_tasks_blocked()
            assert len(bot.runtime.messages.list()) == 2
            go.set()
        await bot.settle()
        assert len(bot.runtime.messages.list()) == 3


async def test_a_closing_runtime_takes_nothing_more(autojump_clock: MockClock) -> None:
    async with Harness(echo()) as bot:
        runtime = bot.runtime
    with pytest.raises(BusError) as closed:
        await runtime.publish(message("late"))
    assert closed.value.code is Code.BUS_CLOSED
