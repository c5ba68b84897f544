"""What a message teaches of its chat is in force at once; where the message is not taken, it is stored all the same."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Code, Context, Permanence, Topology
from shardline.adapters.base import ChannelCaps, Inbound, NotSent
from shardline.testing import FakeChannel, Harness
from tests.kits.words import refused

BLOCKED = NotSent(Code.RECIPIENT_BLOCKED, Permanence.PERMANENT, text="blocked by the user")
MOVED = Inbound(platform_message_id="s1", address="a", text="(moved)", moved_to="b")
BACK = Inbound(platform_message_id="s1", address="a", text="back")
HOWS = ("full", "cancelled")


class Hooked:
    """A bot whose channel is told when a message is not taken, and sends it again, as the caller of a web hook does."""

    def __init__(self) -> None:
        self.go_on = trio.Event()
        self.channel = FakeChannel(caps=ChannelCaps(linear=False))
        topology = Topology()

        @topology.on("chat.message")
        async def answer(ctx: Context, message: BusMessage) -> None:
            if message.payload.text == "hold":
                await self.go_on.wait()
                return
            turns = ctx.state.get("turns", 0)
            assert isinstance(turns, int)
            ctx.state["turns"] = turns + 1
            ctx.reply(f"{turns + 1}: {message.payload.text}")

        self.bot = Harness(topology, channels=[self.channel], store="sqlite-inline", max_lane_backlog=1)

    async def hold(self) -> None:
        """The conversation is full from here on."""
        for _ in ("at work", "waiting"):
            await self.bot.say("fake:a", "hold")

    async def not_taken(self, inbound: Inbound, how: str) -> None:
        """The first try; afterwards the conversation has room."""
        edge = self.channel.edge
        assert edge is not None
        if how == "full":
            with refused(Code.QUEUE_FULL):
                await edge.accept(inbound)
        else:
            with trio.CancelScope() as gone:
                gone.cancel()
                await edge.accept(inbound)
            assert gone.cancelled_caught
        self.go_on.set()
        await self.bot.settle()


@pytest.mark.parametrize("how", HOWS)
async def test_a_move_whose_message_was_not_taken_at_first_is_known_after_a_crash(
    how: str, autojump_clock: MockClock
) -> None:
    """In force since the first try, it is news to nobody at the second."""
    hooked = Hooked()
    async with hooked.bot as bot:
        await hooked.hold()
        await hooked.not_taken(MOVED, how)
        await hooked.channel.read(MOVED)
        await bot.settle()
        await bot.crash()
        await bot.say("fake:b", "here")
        await bot.settle()

        assert bot.runtime.recipients.moves("fake") == {"a": "b"}
        assert bot.sent("fake:a") == ["1: (moved)", "2: here"]
        assert bot.outbox("fake:b") == []


@pytest.mark.parametrize("how", HOWS)
async def test_a_mark_lifted_by_a_message_that_was_not_taken_at_first_stays_lifted(
    how: str, autojump_clock: MockClock
) -> None:
    hooked = Hooked()
    async with hooked.bot as bot:
        await hooked.hold()
        hooked.channel.script(BLOCKED)
        await bot.runtime.sender.send("fake", "fake:a", "one", "k1")
        await hooked.not_taken(BACK, how)
        await hooked.channel.read(BACK)
        await bot.settle()
        await bot.crash()

        assert bot.runtime.recipients.unreachable("fake") == {}


async def test_what_is_owed_and_no_longer_so_is_not_stored(autojump_clock: MockClock) -> None:
    """A mark that was lifted, and is set anew before the next message comes."""
    hooked = Hooked()
    async with hooked.bot as bot:
        hooked.channel.script(BLOCKED, BLOCKED)
        await bot.runtime.sender.send("fake", "fake:a", "one", "k1")
        await hooked.not_taken(BACK, "cancelled")
        await bot.runtime.sender.send("fake", "fake:a", "two", "k2")
        await bot.say("fake:other", "hello")
        await bot.settle()
        await bot.crash()

        assert bot.runtime.recipients.unreachable("fake") == {"fake:a": Code.RECIPIENT_BLOCKED}
