"""F24: poison at the front of the batch, on the inbound side. What fails waits apart and ends dead."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, RetryPolicy, Topology
from shardline.testing import Harness

POISON = 10
RETRIES = 5


async def test_f24_ten_failing_chats_hold_up_no_eleventh(autojump_clock: MockClock) -> None:
    """A batch of 10 full of failures, then one good message in an 11th chat: answered within 1 s; the ten end dead."""
    topology = Topology()
    tries: list[str] = []

    @topology.on("chat.message", concurrency=10, retry=RetryPolicy(max_retries=RETRIES))
    async def answer(ctx: Context, message: BusMessage) -> None:
        tries.append(message.conversation_key)
        if message.payload.text == "bad":
            raise ConnectionError("not now")
        ctx.reply("good")

    async with Harness(topology, store="sqlite-inline", max_inflight=10) as bot:
        for chat in range(POISON):
            await bot.say(f"fake:poison-{chat}", "bad")
        await bot.say("fake:eleventh", "hello")
        with trio.fail_after(1):
            await bot.runtime.wait_until(lambda: bot.sent("fake:eleventh") == ["good"])
        assert bot.dead() == []

        await bot.settle(until_s=600)
        assert len(bot.dead()) == POISON
        assert {row.record.failures for row in bot.dead()} == {RETRIES + 1}
        assert len(tries) == POISON * (RETRIES + 1) + 1
