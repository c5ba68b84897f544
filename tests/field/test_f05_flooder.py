"""F5: a flooder starves normal users. Here every conversation gets its turn, and has a bound of its own."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import Rate, RateLimits
from shardline.storage.memory import open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import Harness
from tests.adapters.telegram.platform import open_platform

FLOOD = 5_000
PER_S = 2.0
"""Sends."""


def slow_echo() -> Topology:
    topology = Topology()

    @topology.on("chat.message", channel="telegram")
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.sleep(0.01)
        ctx.reply(message.payload.text)

    return topology


async def test_f05_a_normal_user_is_answered_within_the_flood(autojump_clock: MockClock) -> None:
    """5,000 messages of chat 7 and one of chat 8 behind them: chat 8 is answered before the 20th answer to chat 7."""
    async with Harness(slow_echo(), channels=["telegram"], store="sqlite-inline") as bot:
        async with trio.open_nursery() as nursery:
            for number in range(FLOOD):
                nursery.start_soon(bot.say, "tg:7", f"flood {number}")
            nursery.start_soon(bot.say, "tg:8", "hello")
        await bot.settle(until_s=600)

        order = [out.conversation_key for out in bot.channel("telegram").delivered]
        assert order.count("tg:7") == FLOOD
        assert order[: order.index("tg:8")].count("tg:7") < 20


async def test_f05_the_flood_beyond_the_bound_is_kept_apart_and_counted(autojump_clock: MockClock) -> None:
    """The flooder's own bound refuses what is too much; nobody else is refused, and nothing is lost from sight."""
    async with Harness(
        slow_echo(), channels=["telegram"], store="sqlite-inline", max_lane_backlog=100
    ) as bot:
        async with trio.open_nursery() as nursery:
            for number in range(FLOOD):
                nursery.start_soon(bot.say, "tg:7", f"flood {number}")
            nursery.start_soon(bot.say, "tg:8", "hello")
        await bot.settle(until_s=600)

        status = bot.runtime.status()
        assert bot.sent("tg:8") == ["hello"]
        assert len(bot.sent("tg:7")) + status.inbox[InboxStatus.REFUSED] == FLOOD
        assert status.run["refused"] == status.inbox[InboxStatus.REFUSED] > FLOOD // 2
        refused = bot.runtime.messages.list(status=InboxStatus.REFUSED, limit=FLOOD)
        assert {row.record.conversation_key for row in refused} == {"tg:7"}
        assert {row.record.errors[0].code for row in refused} == {"QUEUE_FULL"}


@pytest.mark.long
async def test_f05_in_the_same_pages_of_the_platform() -> None:
    """5,000 updates of chat 7 and one of chat 8 in the first of their pages; the whole bot has two sends a second.

    So few that the first page is read, on whatever machine, long before twenty are out.
    """
    async with open_platform() as platform:
        for number in range(FLOOD):
            if number == 99:
                platform.bot.say(8, "hello")
            platform.bot.say(7, f"flood {number}")
        begun_s = trio.current_time()
        adapter = platform.adapter(limits=RateLimits(bot=Rate(PER_S)))
        with trio.fail_after(500):
            async with Runtime.open(
                slow_echo(), store=open_memory(), adapters=[adapter], grace_s=0
            ) as runtime:
                # All of the flood is read meanwhile, and the limit holds the rest of the answers.
                await runtime.wait_until(lambda: sum(runtime.status().inbox.values()) == FLOOD + 1)
                await runtime.wait_until(lambda: bool(platform.bot.sent(8)))

        chats = [call.chat for call in platform.bot.sent()]
        assert chats[: chats.index(8)].count(7) < 20
        times = [call.at_s for call in platform.bot.sent()]
        # Not from the first arrival on: it may have been long on its way. One stands ready at the start.
        assert len(times) - 1 <= PER_S * (times[-1] - begun_s) + 1
