"""A stored message whose handler is missing: parked once, and handled after deploy and requeue."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.adapters.base import Inbound
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxRecord, InboxStatus
from shardline.testing import FakeChannel
from tests.kits.bots import check_all_done, texts_to, until_quiet


def bot(handled: list[str], *topics: str, ready: bool = True) -> Topology:
    topology = Topology()
    for topic in topics:

        @topology.on(topic)
        async def answer(ctx: Context, message: BusMessage) -> None:
            if not ready:
                await trio.sleep_forever()
            handled.append(message.payload.text)
            ctx.reply(message.payload.text)

    return topology


async def test_old_v0_without_its_handler(autojump_clock: MockClock) -> None:
    """A message for topic `old.v0`, one behind it, and another conversation."""
    database, channel, handled = MemoryDatabase(), FakeChannel(), list[str]()
    async with Runtime.open(
        bot(handled, "old.v0", "chat.message", ready=False),
        store=open_memory(database=database),
        adapters=[channel],
        grace_s=0,
    ):
        await channel.read(Inbound(platform_message_id="1", address="a", text="old", topic="old.v0"))
        await channel.say("a", "behind")
        await channel.say("b", "other")
    assert handled == []

    parked: list[InboxRecord] = []
    for _ in range(2):
        async with Runtime.open(
            bot(handled, "chat.message"), store=open_memory(database=database), adapters=[channel]
        ) as runtime:
            await until_quiet(runtime)
            parked.append(runtime.messages.list(status=InboxStatus.PARKED)[0].record)
            with pytest.raises(BusError) as refused:
                await runtime.dead_letters.requeue(2)
            assert refused.value.code is Code.INVALID_TRANSITION
    assert sorted(handled) == ["behind", "other"]
    assert parked[0] == parked[1]
    assert [error.code for error in parked[0].errors] == ["NO_SUBSCRIBER"]
    assert (parked[0].failures, parked[0].crashes) == (0, 0)

    async with Runtime.open(
        bot(handled, "old.v0", "chat.message"), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        await until_quiet(runtime)
        assert "old" not in handled
        await runtime.dead_letters.requeue(parked[0].id)
        await until_quiet(runtime)
        assert handled[-1] == "old"
        assert texts_to("a", channel) == ["behind", "old"]
        check_all_done(runtime)
