"""What may be declared, when, and what happens to messages that nobody handles."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Event, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Edge, Inbound, Outbound, SendOutcome, Sent
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel, Harness


async def nothing(ctx: Context, message: BusMessage) -> None:
    """A handler that decides nothing."""


def refusal(declare: object) -> Code:
    assert callable(declare)
    with pytest.raises(BusError) as refused:
        declare()
    return refused.value.code


def test_one_handler_for_each_topic_and_channel() -> None:
    topology = Topology()
    topology.on("chat.message", channel="telegram")(nothing)
    topology.on("chat.message", channel="slack")(nothing)
    topology.on("chat.message")(nothing)

    assert refusal(lambda: topology.on("chat.message")) is Code.TOPIC_ALREADY_HANDLED
    assert refusal(lambda: topology.on("chat.message", channel="slack")) is Code.TOPIC_ALREADY_HANDLED


def test_bad_declarations_are_refused_where_they_stand() -> None:
    topology = Topology()
    topology.topic("order.shipped")

    def not_async(ctx: Context, message: BusMessage) -> None:
        """Not a coroutine function."""

    async def one_argument(ctx: Context) -> None:
        """Takes too little."""

    async def takes_event(ctx: Context, event: Event) -> None:
        """Belongs to a group."""

    on = topology.on
    assert refusal(lambda: on("Chat Message")) is Code.INVALID_TOPIC
    assert refusal(lambda: on("order.shipped")) is Code.INVALID_TOPIC
    assert refusal(lambda: on("system.metrics")) is Code.INVALID_TOPIC
    assert refusal(lambda: on("a.b", timeout_s=0)) is Code.INVALID_MESSAGE
    assert refusal(lambda: on("a.b", concurrency=0)) is Code.INVALID_MESSAGE
    assert refusal(lambda: on("a.b", channel="Tele gram")) is Code.INVALID_MESSAGE
    assert refusal(lambda: on("a.b")(not_async)) is Code.INVALID_MESSAGE  # type: ignore[type-var]  # the point
    assert refusal(lambda: on("a.b")(one_argument)) is Code.INVALID_MESSAGE  # type: ignore[type-var]  # the point
    assert refusal(lambda: on("a.b")(takes_event)) is Code.INVALID_MESSAGE  # type: ignore[type-var]  # the point
    assert refusal(lambda: topology.topic("chat.message")) is Code.INVALID_TOPIC
    assert refusal(lambda: topology.topic("order.shipped")) is Code.TOPIC_ALREADY_HANDLED
    assert refusal(lambda: topology.topic("order.paid", partitions=0)) is Code.INVALID_MESSAGE


async def test_the_topology_freezes_when_a_runtime_opens(autojump_clock: MockClock) -> None:
    topology = Topology()
    topology.on("chat.message")(nothing)
    async with Harness(topology):
        assert refusal(lambda: topology.on("dm.reply.v1")) is Code.TOPIC_FROZEN
        assert refusal(lambda: topology.topic("order.shipped")) is Code.TOPIC_FROZEN


async def test_an_adapter_that_nobody_handles_is_refused_at_open(autojump_clock: MockClock) -> None:
    topology = Topology()
    topology.on("chat.message", channel="telegram")(nothing)

    with pytest.raises(BusError) as refused:
        async with Runtime.open(topology, store=open_memory(), adapters=[FakeChannel("slack")]):
            pass
    assert refused.value.code is Code.NO_SUBSCRIBER
    assert "there are handlers for: chat.message of channel telegram" in str(refused.value)
    with pytest.raises(BusError) as twice:
        async with Runtime.open(
            topology, store=open_memory(), adapters=[FakeChannel("telegram"), FakeChannel("telegram")]
        ):
            pass
    assert twice.value.code is Code.UNKNOWN_ADAPTER


def test_a_topic_that_is_not_handled_is_told_with_those_that_are() -> None:
    topology = Topology()
    topology.on("chat.message")(nothing)
    for number in range(10):
        topology.on(f"order.paid{number}")(nothing)
    frozen = topology.freeze()

    for topic, code in (("chat.mesage", Code.INVALID_TOPIC), ("dm.reply.v1", Code.NO_SUBSCRIBER)):
        with pytest.raises(
            BusError, match=r"handlers for: chat\.message, order\.paid0, .* and 3 more"
        ) as refused:
            frozen.check_conversation_topic(topic)
        assert refused.value.code is code
    with pytest.raises(BusError, match="there are handlers for: nothing"):
        Topology().freeze().check_conversation_topic("chat.message")
    # Who publishes to a topic of his own reads here what it lacks.
    with pytest.raises(BusError, match=r"`Topology\.topic` declares an event topic"):
        Topology().freeze().check_conversation_topic("order.paid")


class Forgetful:
    """Claims to be able to look a send up, and cannot."""

    name = "forgetful"
    prefix = "forgetful"
    caps = ChannelCaps(reconciles=True)

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()

    async def send(self, out: Outbound) -> SendOutcome:
        return Sent(None)


async def test_an_adapter_that_cannot_keep_its_claim_is_refused_at_open(autojump_clock: MockClock) -> None:
    topology = Topology()
    topology.on("chat.message")(nothing)

    with pytest.raises(BusError) as refused:
        async with Runtime.open(topology, store=open_memory(), adapters=[Forgetful()]):
            pass
    assert refused.value.code is Code.UNKNOWN_ADAPTER
    assert "reconcile" in str(refused.value)


async def test_parked_messages_run_once_their_handler_is_there(autojump_clock: MockClock) -> None:
    """Field entry 39."""
    database = MemoryDatabase()
    channel = FakeChannel("fake")
    without = Topology()
    without.on("dm.reply.v1")(nothing)
    async with Runtime.open(
        without, store=open_memory(database=database), adapters=[channel], unhandled="park"
    ) as runtime:
        await channel.say("a", "hi")
        (parked,) = runtime.messages.list(status=InboxStatus.PARKED)
        assert parked.record.claim == 0

    handled: list[str] = []
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        handled.append(message.payload.text)

    async with Runtime.open(topology, store=open_memory(database=database), adapters=[channel]) as runtime:
        await runtime.wait_until(lambda: runtime.is_quiet)
        assert handled == []

        await runtime.dead_letters.requeue(parked.record.id)
        await runtime.wait_until(lambda: runtime.is_quiet)
        assert handled == ["hi"]


async def test_a_stored_message_whose_handler_vanished_is_parked_once(autojump_clock: MockClock) -> None:
    database = MemoryDatabase()
    channel = FakeChannel("fake")
    topology = Topology()

    @topology.on("chat.message")
    async def stop_first(ctx: Context, message: BusMessage) -> None:
        raise ValueError("not today")

    async with Runtime.open(topology, store=open_memory(database=database), adapters=[channel]) as runtime:
        await channel.say("a", "one")
        await channel.say("a", "two")
        await runtime.wait_until(lambda: runtime.status().inbox[InboxStatus.FAILED] == 1)

    other = Topology()
    other.on("dm.reply.v1")(nothing)
    async with Runtime.open(
        other, store=open_memory(database=database), adapters=[channel], unhandled="park"
    ) as runtime:
        await runtime.wait_until(lambda: runtime.is_quiet)
        texts = [row.message.payload.text for row in runtime.messages.list(status=InboxStatus.PARKED)]
        assert sorted(texts) == ["one", "two"]


async def test_what_an_adapter_cannot_express_is_parked(autojump_clock: MockClock) -> None:
    topology = Topology()
    topology.on("chat.message")(nothing)
    channel = FakeChannel("fake", ChannelCaps())
    async with Harness(topology, channels=[channel]) as bot:
        strange = Inbound(
            platform_message_id="u1", address="a", text="{...}", topic="channel.unknown", raw=b"{}"
        )
        assert await channel.read(strange)
        await bot.settle()

        (parked,) = bot.runtime.messages.list(status=InboxStatus.PARKED)
        assert parked.message.topic == "channel.unknown"
        assert parked.message.raw == b"{}"
