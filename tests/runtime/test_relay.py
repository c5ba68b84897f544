"""What a store that relays emits refuses to take at its home."""

from __future__ import annotations

from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.storage.memory import open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel
from tests.kits.bots import texts_to, until_quiet


async def test_a_send_whose_key_is_taken_at_its_home_holds_up_nothing(autojump_clock: MockClock) -> None:
    """The turn cannot see it; refused again and again, it ended the bot at every start."""
    topology, channel = Topology(), FakeChannel("fake")

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        # Each at another home than the conversation.
        for address in ("b", "c", "d"):
            ctx.send("fake", f"fake:{address}", message.payload.text, idempotency_key=f"to {address}")
            ctx.send("fake", f"fake:{address}", "more", idempotency_key=message.payload.text + address)

    async with Runtime.open(topology, store=open_memory(emits="relayed"), adapters=[channel]) as runtime:
        await channel.say("a", "one")
        await until_quiet(runtime)
        await channel.say("a", "two")
        await until_quiet(runtime)
        assert {row.record.status for row in runtime.messages.list()} == {InboxStatus.DONE}
        assert runtime.counters["emits_refused"] == 3

    for address in ("b", "c", "d"):
        assert texts_to(address, channel) == ["one", "more", "more"]
