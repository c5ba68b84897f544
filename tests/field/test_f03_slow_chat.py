"""F3: one slow chat stops everybody. Here it keeps nobody but itself, and is seen."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.runtime.health import HealthState
from shardline.storage.memory import open_memory
from shardline.testing import Harness
from tests.adapters.telegram.platform import open_platform

CHATS = range(2, 102)


async def test_f03_a_handler_that_sleeps_for_ever_keeps_only_its_own_chat(autojump_clock: MockClock) -> None:
    """Chat 1 sleeps for ever; chats 2 to 101 get a message each: handled within 2 s, chat 1 shown with its age."""
    topology = Topology()

    @topology.on("chat.message", channel="telegram", timeout_s=float("inf"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.conversation_key == "tg:1":
            await trio.sleep_forever()
        await trio.sleep(0.05)
        ctx.reply("here")

    async with Harness(topology, channels=["telegram"], store="sqlite-inline") as bot:
        began_s = trio.current_time()
        await bot.say("tg:1", "hello")
        for chat in CHATS:
            await bot.say(f"tg:{chat}", "hello")
        with trio.fail_after(2):
            await bot.runtime.wait_until(lambda: all(bot.sent(f"tg:{chat}") for chat in CHATS))
        assert trio.current_time() - began_s < 2

        await bot.advance(60)
        status = bot.runtime.status()
        assert (status.running_turns, status.overdue_turns) == (1, 1)
        (busy,) = status.oldest_turns
        assert (busy.topic, busy.channel, busy.conversation_key) == ("chat.message", "telegram", "tg:1")
        assert busy.inbox_id == bot.runtime.messages.list(key="tg:1")[0].record.id
        assert 60 <= busy.age_s < 62
        assert busy.overdue
        health = bot.runtime.health()
        assert (health.state, [reason.word for reason in health.reasons]) == (
            HealthState.DEGRADED,
            ["turns_overdue"],
        )


async def test_f03_the_updates_behind_are_read_and_confirmed() -> None:
    """The same in two pages of the platform, over a socket: polling goes on."""
    topology = Topology()

    @topology.on("chat.message", timeout_s=float("inf"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.conversation_key == "tg:1":
            await trio.sleep_forever()
        ctx.reply("here")

    async with open_platform() as platform:
        for chat in (1, *CHATS):
            platform.bot.say(chat, "hello")
        adapter = platform.adapter()
        with trio.fail_after(20):
            async with Runtime.open(topology, store=open_memory(), adapters=[adapter], grace_s=0) as runtime:
                await platform.bot.wait_sent(len(CHATS))
                (busy,) = runtime.status().oldest_turns

        assert busy.conversation_key == "tg:1"
        assert sorted(call.chat or 0 for call in platform.bot.sent()) == list(CHATS)
        assert platform.bot.waiting == 0
