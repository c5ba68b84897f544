"""The outbox under every kind of outcome: order kept, budgets counted, results honest."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Code, Context, RetryPolicy, Topology
from shardline.actors.errors import Permanence
from shardline.adapters.base import ChannelCaps, NotSent, Sent, Uncertain
from shardline.storage.records import OutboxState
from shardline.testing import FakeChannel, Harness

NO_JITTER = RetryPolicy(max_retries=3, base_delay_s=1, jitter="none")


def counting_bot() -> Topology:
    topology = Topology()

    @topology.on("chat.message", retry=NO_JITTER)
    async def answer(ctx: Context, message: BusMessage) -> None:
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        ctx.reply(f"{turns + 1}: {message.payload.text}")

    return topology


async def test_refused_sends_are_classified_by_the_adapter_alone(autojump_clock: MockClock) -> None:
    """Field entry 20: a permanent refusal is dead after one attempt, whatever its text says."""
    text = "network unreachable timeout 429"
    async with Harness(counting_bot()) as bot:
        bot.channel("fake").script(
            NotSent(Code.RECIPIENT_BLOCKED, Permanence.PERMANENT, text=text),
            NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT, text="try again"),
        )
        await bot.say("fake:a", "one")
        await bot.settle()
        await bot.say("fake:a", "two")
        await bot.settle()

        first, second = bot.outbox("fake:a")
        assert (first.state, first.attempts) == (OutboxState.DEAD, 1)
        assert first.errors[0].code == "RECIPIENT_BLOCKED"
        assert (second.state, second.attempts) == (OutboxState.SENT, 2)


async def test_a_later_message_does_not_overtake_one_in_back_off(autojump_clock: MockClock) -> None:
    """Field entry 22."""
    async with Harness(counting_bot()) as bot:
        bot.channel("fake").script(NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT))
        for number in range(3):
            await bot.say("fake:a", str(number))
        await bot.settle()

        assert bot.sent("fake:a") == ["1: 0", "2: 1", "3: 2"]


async def test_rate_limits_are_no_attempts(autojump_clock: MockClock) -> None:
    async with Harness(counting_bot()) as bot:
        bot.channel("fake").script(*[NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=7)] * 9)
        await bot.say("fake:a", "hi")
        start = trio.current_time()
        await bot.settle()

        (row,) = bot.outbox("fake:a")
        assert (row.state, row.attempts, row.claim) == (OutboxState.SENT, 1, 10)
        # Never earlier than asked, and a little jitter each time.
        assert 63 <= trio.current_time() - start <= 63 + 9 * 0.25 + 0.01


@pytest.mark.parametrize(
    ("lookup", "state", "attempts"),
    [
        (Sent("7"), OutboxState.SENT, 1),
        (NotSent(Code.NOT_FOUND, Permanence.PERMANENT), OutboxState.SENT, 2),
        (None, OutboxState.UNCERTAIN, 1),
    ],
)
async def test_an_uncertain_send_is_looked_up_where_the_channel_can(
    autojump_clock: MockClock, lookup: Sent | NotSent | None, state: OutboxState, attempts: int
) -> None:
    channel = FakeChannel("fake", ChannelCaps(reconciles=True))
    async with Harness(counting_bot(), channels=[channel]) as bot:
        channel.script(RuntimeError("the line went dead"))
        channel.answer_lookups(lookup)
        await bot.say("fake:a", "one")
        await bot.say("fake:a", "two")
        await bot.settle()

        first, second = bot.outbox("fake:a")
        assert (first.state, first.attempts) == (state, attempts)
        assert second.state is OutboxState.SENT
        if state is OutboxState.SENT and attempts == 2:
            assert bot.sent("fake:a") == ["1: one", "2: two"]


async def test_a_channel_that_drops_copies_is_sent_to_again(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake", ChannelCaps(deduplicates=True))
    async with Harness(counting_bot(), channels=[channel]) as bot:
        channel.script(Uncertain("no answer"), Sent("1", deduped=True))
        await bot.say("fake:a", "one")
        await bot.say("fake:a", "two")
        await bot.settle()

        first, second = bot.outbox("fake:a")
        assert (first.state, first.attempts, first.deduped) == (OutboxState.SENT, 2, True)
        assert [out.idempotency_key for out in channel.attempts] == [first.idempotency_key] * 2 + [
            second.idempotency_key
        ]
