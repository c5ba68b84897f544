"""F25 and F26 at once: a chat that is paused moves, or one that moved is paused; a crash lies between."""

from __future__ import annotations

import pytest
import trio

from shardline import BusMessage, Code, Context, Permanence, Topology
from shardline.adapters.base import Inbound, NotSent
from shardline.testing import Harness
from tests.kits.timed_channel import TimedChannel

FLOOD = NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=60, scope="chat")
MOVED = NotSent(Code.RECIPIENT_NOT_FOUND, Permanence.PERMANENT, text="migrated", moved_to="new")


def echo() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


@pytest.mark.parametrize("crashes", [False, True])
async def test_a_pause_of_the_new_address_holds_all_of_the_conversation(
    autojump_clock: trio.abc.Clock, *, crashes: bool
) -> None:
    """Told at the old address that it has moved, and at the new one to wait."""
    channel = TimedChannel(answers={"one": [MOVED, FLOOD]})
    async with Harness(echo(), channels=[channel], store="sqlite-inline") as bot:
        await bot.say("fake:old", "one")
        await bot.advance(5)
        if crashes:
            await bot.crash()
        await bot.say("fake:old", "two")
        await bot.say("fake:new", "three")
        await bot.settle(until_s=50)
        assert [(to, text) for _, to, text in channel.wire] == [("old", "one"), ("new", "one")]
        await bot.settle()

        assert [(to, text) for _, to, text in channel.wire[2:]] == [
            ("new", "one"), ("new", "two"), ("new", "three")
        ]  # fmt: skip
        assert all(at >= 60 for at, _, _ in channel.wire[2:])
        assert [row.attempts for row in bot.outbox("fake:old")] == [1, 1, 1]


@pytest.mark.parametrize("crashes", [False, True])
async def test_a_paused_chat_that_moves_keeps_its_pause(
    autojump_clock: trio.abc.Clock, *, crashes: bool
) -> None:
    """It says that it moved while the bot waits: the same people, who were written to too often."""
    channel = TimedChannel(answers={"one": [FLOOD]})
    async with Harness(echo(), channels=[channel], store="sqlite-inline") as bot:
        await bot.say("fake:old", "one")
        await bot.advance(5)
        await channel.read(Inbound(platform_message_id="m", address="old", text="two", moved_to="new"))
        await bot.advance(5)
        if crashes:
            await bot.crash()
        await bot.say("fake:new", "three")
        await bot.settle(until_s=40)
        assert [(to, text) for _, to, text in channel.wire] == [("old", "one")]
        await bot.settle()

        assert [(to, text) for _, to, text in channel.wire[1:]] == [
            ("new", "one"), ("new", "two"), ("new", "three")
        ]  # fmt: skip
        assert all(at >= 60 for at, _, _ in channel.wire[1:])
