"""F3: one slow chat stops everybody. Here it keeps nobody but itself, and is seen."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Topology
from shardline.testing import Harness

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
