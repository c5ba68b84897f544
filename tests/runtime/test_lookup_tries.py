"""A question cut off from here, or asked while the channel is held to be down, is no try to look a send up."""

from __future__ import annotations

import structlog
import trio
from trio.testing import MockClock

from shardline import Code, Permanence, RetryPolicy
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, SendOutcome, Sent, Uncertain
from shardline.runtime.breaker import Breaker, CircuitState
from shardline.runtime.send import Send
from shardline.storage.records import OutboxState
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import counting_bot
from tests.kits.crashes import crash_in

RETRY = RetryPolicy(max_retries=2, base_delay_s=1, jitter="none")


class Silent(FakeChannel):
    """Gives no answer to the first six questions for a send."""

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        self.lookups.append(out)
        if len(self.lookups) <= 6:
            await trio.sleep_forever()
        return Sent("7")


async def test_look_ups_cut_off_by_a_crash_are_no_tries(autojump_clock: MockClock) -> None:
    """Six crashes of the channel's workers, where two tries in vain would leave the send to a person."""
    channel = Silent("fake", ChannelCaps(reconciles=True, send_timeout_s=600))
    with structlog.testing.capture_logs():
        async with Harness(counting_bot(), channels=[channel], send_retry=RETRY) as bot:
            channel.script(Uncertain("no answer"))
            await bot.say("fake:a", "one")
            await bot.advance(60)
            for crash in range(6):
                asked = len(channel.lookups)
                with crash_in(Send, "ended", at=[1], after=True) as failed:
                    await bot.say("fake:b", str(crash))
                    await bot.advance(120)
                assert (asked, failed) == (crash + 1, [1])
            await bot.settle()
            (row,) = bot.outbox("fake:a")

    assert (row.state, row.platform_message_id) == (OutboxState.SENT, "7")
    assert [out.address for out in channel.attempts].count("a") == 1


class Unreachable(FakeChannel):
    """Answers nothing and nobody until a time of trio's clock; then it knows of no send of before."""

    until_s = 0.0

    async def send(self, out: Outbound) -> SendOutcome:
        if trio.current_time() < self.until_s:
            await trio.lowlevel.checkpoint()
            raise ConnectionResetError
        return await FakeChannel.send(self, out)

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        self.lookups.append(out)
        if trio.current_time() < self.until_s:
            raise ConnectionResetError
        return NotSent(Code.NOT_FOUND, Permanence.PERMANENT)


async def test_an_outage_spends_no_tries_to_look_up(autojump_clock: MockClock) -> None:
    """Ten minutes without the network, ten chats: nothing is left to a person."""
    channel = Unreachable("fake", ChannelCaps(reconciles=True))
    channel.until_s = trio.current_time() + 600
    rules = Breaker(failures=3, window_s=30, open_s=10)
    with structlog.testing.capture_logs():
        async with Harness(counting_bot(), channels=[channel], send_retry=RETRY, send_breaker=rules) as bot:
            for chat in range(10):
                await bot.say(f"fake:{chat}", "one")
            await bot.advance(300)
            during = bot.runtime.status().breakers[0].state
            await bot.settle()
            states = {row.state for chat in range(10) for row in bot.outbox(f"fake:{chat}")}
            sent = [bot.sent(f"fake:{chat}") for chat in range(10)]

    assert during is not CircuitState.CLOSED
    assert channel.lookups
    assert (states, sent) == ({OutboxState.SENT}, [["1: one"]] * 10)
