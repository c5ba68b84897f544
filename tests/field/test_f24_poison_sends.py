"""F24: poison at the front of the batch, on the outbound side. What fails waits apart and ends dead."""

import trio

from shardline import BusMessage, Code, Context, Permanence, RetryPolicy, Topology
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, SendOutcome
from shardline.testing import FakeChannel, Harness

POISON, RETRIES = 10, 5


class Poisoned(FakeChannel):
    async def send(self, out: Outbound) -> SendOutcome:
        if out.text == "bad":
            await trio.lowlevel.checkpoint()
            self.attempts.append(out)
            return NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT, text="503")
        return await super().send(out)


async def test_f24_ten_failing_chats_hold_up_no_eleventh(autojump_clock: trio.abc.Clock) -> None:
    """10 at once, 10 chats that fail for ever, then a good send in an 11th: out within 1 s; the ten end dead."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    channel = Poisoned("fake", ChannelCaps(concurrency=10))
    async with Harness(topology, channels=[channel], send_retry=RetryPolicy(max_retries=RETRIES)) as bot:
        for chat in range(POISON):
            await bot.say(f"fake:poison-{chat}", "bad")
        with trio.fail_after(1):
            await bot.say("fake:eleventh", "good")
            await bot.runtime.wait_until(lambda: bot.sent("fake:eleventh") == ["good"])

        await bot.settle()
        rows = [row for chat in range(POISON) for row in bot.outbox(f"fake:poison-{chat}")]

    assert len(rows) == POISON
    assert {(row.dead_at_us is not None, row.attempts) for row in rows} == {(True, RETRIES + 1)}
    assert sum(out.text == "bad" for out in channel.attempts) == POISON * (RETRIES + 1)
