"""The breaker of a channel's sends: while a platform is down nothing is tried, no attempt is spent, one send probes."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import Breaker, BusMessage, Code, Context, Permanence, RetryPolicy, Topology
from shardline.adapters.base import NotSent, Outbound, SendOutcome, Sent, Uncertain
from shardline.runtime.breaker import CircuitState
from shardline.runtime.send_breaker import is_failure_of_channel
from shardline.testing import FakeChannel, Harness

DOWN = NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT, text="503")
RULES = Breaker(failures=3, window_s=30, open_s=10)
RETRY = RetryPolicy(max_retries=2, base_delay_s=1, jitter="none")


def echo() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        for word in message.payload.text.split():
            ctx.reply(word)

    return topology


@attrs.define
class Flaky(FakeChannel):
    """Down until a time of trio's clock; notes when it was asked."""

    until_s: float = 0.0
    answer: SendOutcome | None = DOWN
    asked_s: list[float] = attrs.field(factory=list[float])

    async def send(self, out: Outbound) -> SendOutcome:
        now_s = trio.current_time()
        self.asked_s.append(round(now_s, 2))
        if now_s < self.until_s:
            await trio.lowlevel.checkpoint()
            self.attempts.append(out)
            if self.answer is None:
                await trio.sleep_forever()
                raise AssertionError("it sleeps for ever")
            return self.answer
        return await FakeChannel.send(self, out)


async def test_an_outage_of_a_minute_costs_nobody_his_attempts(autojump_clock: MockClock) -> None:
    """3 attempts in 3 s each, 20 chats, down for a minute: without the breaker all are dead."""
    down, other = Flaky("fake", until_s=trio.current_time() + 60), FakeChannel("other")
    async with Harness(echo(), channels=[down, other], send_retry=RETRY, send_breaker=RULES) as bot:
        for chat in range(20):
            await bot.say(f"fake:{chat}", "one two")
        await bot.settle(until_s=1)
        told = {breaker.channel: breaker for breaker in bot.runtime.status().breakers}
        health = [(reason.word, reason.about) for reason in bot.runtime.health().reasons]
        await bot.say("other:1", "hello")
        await bot.settle(until_s=1)
        heard = bot.sent("other:1")
        await bot.settle()
        rows = [row for chat in range(20) for row in bot.outbox(f"fake:{chat}")]
        sent = [bot.sent(f"fake:{chat}") for chat in range(20)]
        after = bot.runtime.status().breakers[0]

    assert told["fake"].state is CircuitState.OPEN
    assert (told["fake"].name, told["other"].state) == ("fake sends", CircuitState.CLOSED)
    assert ("breaker_open", "fake sends") in health
    assert heard == ["hello"], "another channel flows"
    assert {row.status for row in rows} == {"sent"}
    assert sent == [["one", "two"]] * 20, "and each conversation keeps its order"
    begun_s = down.asked_s[0]
    probes = [
        out.conversation_key
        for at_s, out in zip(down.asked_s, down.attempts, strict=False)
        if 1 < at_s - begun_s < 59
    ]
    assert len(probes) == 5, "one send every 10 s"
    assert len(set(probes)) == 5, "and each of another conversation"
    assert (after.state, after.opened) == (CircuitState.CLOSED, 6)
    assert max(row.attempts for row in rows) <= 3


async def test_without_one_the_same_outage_kills(autojump_clock: MockClock) -> None:
    down = Flaky("fake", until_s=trio.current_time() + 60)
    async with Harness(echo(), channels=[down], send_retry=RETRY) as bot:
        for chat in range(20):
            await bot.say(f"fake:{chat}", "one two")
        await bot.settle()
        states = {row.dead_at_us is not None for chat in range(20) for row in bot.outbox(f"fake:{chat}")}
        breakers = bot.runtime.status().breakers

    assert (states, breakers) == ({True}, ())


async def test_sends_that_hang_open_it_and_those_under_way_decide_nothing(autojump_clock: MockClock) -> None:
    """16 at once hang for 30 s each; the three first to be cut off open it once, the other 13 say nothing more."""
    down = Flaky("fake", until_s=trio.current_time() + 35, answer=None)
    async with Harness(echo(), channels=[down], send_breaker=RULES) as bot:
        for chat in range(30):
            await bot.say(f"fake:{chat}", "hi")
        await bot.settle(until_s=31)
        opened = bot.runtime.status().breakers[0].opened
        asked = len(down.asked_s)
        await bot.settle()
        states = [row.state.value for chat in range(30) for row in bot.outbox(f"fake:{chat}")]

    assert (opened, asked) == (1, 16)
    assert (states.count("uncertain"), states.count("sent")) == (16, 14)


async def test_a_poison_conversation_opens_nothing(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake")
    async with Harness(echo(), channels=[channel], send_breaker=Breaker(failures=2)) as bot:
        channel.script(*[DOWN] * 4)
        await bot.say("fake:1", "hi")
        await bot.settle()
        breaker = bot.runtime.status().breakers[0]

    assert (breaker.opened, breaker.state) == (0, CircuitState.CLOSED)


async def test_a_start_that_is_lost_with_its_shard_keeps_nobody_waiting(autojump_clock: MockClock) -> None:
    """The probe was let through and its shard crashes before a byte leaves: another one probes."""
    down = Flaky("fake", until_s=trio.current_time() + 5)
    async with Harness(echo(), channels=[down], send_retry=RETRY, send_breaker=RULES) as bot:
        for chat in range(6):
            await bot.say(f"fake:{chat}", "hi")
        await bot.settle(until_s=1)
        # What such a start leaves behind: it was taken, and no send comes of it.
        vars(vars(bot.runtime)["_services"].deliveries["fake"].line)["_starts_left"] = 0
        with trio.fail_after(60):
            await bot.settle()
        sent = [bot.sent(f"fake:{chat}") for chat in range(6)]

    assert sent == [["hi"]] * 6


@pytest.mark.parametrize(
    ("outcome", "speaks"),
    [
        (Sent("1"), False),
        (Uncertain("timed out"), True),
        (DOWN, True),
        (NotSent(Code.DELIVERY_UNCERTAIN, Permanence.UNCERTAIN), True),
        (NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT), False),
        (NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=5), False),
        (NotSent(Code.BAD_TOKEN, Permanence.TRANSIENT), False),
        (NotSent(Code.RECIPIENT_NOT_FOUND, Permanence.TRANSIENT, moved_to="b"), False),
    ],
)
def test_what_speaks_against_a_channel(outcome: SendOutcome, speaks: bool) -> None:
    assert is_failure_of_channel(outcome) is speaks
