"""A send whose result nobody knows: the message's own policy decides, else what the channel can do, at each door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import pytest
from trio.testing import MockClock

from shardline import BusMessage, Context, RetryPolicy, Topology
from shardline.adapters.base import ChannelCaps, Sent, Uncertain
from shardline.storage.records import OutboxState
from shardline.testing import FakeChannel, Harness

Own = Literal["park", "resend", "drop"] | None
Say = Callable[[Context, Own], Awaitable[None]]

PLAIN, DROPS_COPIES = ChannelCaps(), ChannelCaps(deduplicates=True)
TO, TEXT = "fake:a", "hello"


async def reply(ctx: Context, own: Own) -> None:
    ctx.reply(TEXT, on_uncertain=own)


async def send(ctx: Context, own: Own) -> None:
    ctx.send("fake", TO, TEXT, on_uncertain=own)


async def send_now(ctx: Context, own: Own) -> None:
    await ctx.send_now("early", TEXT, on_uncertain=own)


def saying(say: Say, own: Own) -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        await say(ctx, own)

    return topology


ENDS = [
    pytest.param(PLAIN, None, OutboxState.UNCERTAIN, 1, id="channel-parks"),
    pytest.param(DROPS_COPIES, None, OutboxState.SENT, 2, id="channel-resends"),
    *(
        pytest.param(caps, own, state, calls, id=f"{own}-{name}")
        for name, caps in (("plain", PLAIN), ("drops-copies", DROPS_COPIES))
        for own, state, calls in (
            ("park", OutboxState.UNCERTAIN, 1),
            ("resend", OutboxState.SENT, 2),
            ("drop", OutboxState.DEAD, 1),
        )
    ),
]


@pytest.mark.parametrize("say", [reply, send, send_now])
@pytest.mark.parametrize(("caps", "own", "state", "calls"), ENDS)
async def test_a_turn_s_send_ends_as_its_policy_says(
    autojump_clock: MockClock, caps: ChannelCaps, own: Own, state: OutboxState, calls: int, say: Say
) -> None:
    channel = FakeChannel("fake", caps)
    async with Harness(saying(say, own), channels=[channel]) as bot:
        channel.script(Uncertain("no answer"), Sent("1"))
        await bot.say(TO, "hi")
        await bot.settle()

        [row] = bot.outbox(TO)
        assert (row.state, len(channel.attempts)) == (state, calls)


@pytest.mark.parametrize(("caps", "own", "state", "calls"), ENDS)
async def test_a_program_s_send_ends_as_its_policy_says(
    autojump_clock: MockClock, caps: ChannelCaps, own: Own, state: OutboxState, calls: int
) -> None:
    channel = FakeChannel("fake", caps)
    async with Harness(saying(reply, None), channels=[channel]) as bot:
        channel.script(Uncertain("no answer"), Sent("1"))
        ended = await bot.runtime.sender.send("fake", TO, TEXT, "k", on_uncertain=own)

        [row] = bot.outbox(TO)
        assert (row.state, len(channel.attempts)) == (state, calls)
        assert ended.status == str(state)


async def test_what_is_sent_again_in_vain_is_left_to_a_person(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake", PLAIN)
    retry = RetryPolicy(max_retries=2, base_delay_s=1, jitter="none")
    async with Harness(saying(reply, "resend"), channels=[channel], send_retry=retry) as bot:
        channel.script(*[Uncertain("no answer")] * 9)
        await bot.say(TO, "hi")
        await bot.settle()

        [row] = bot.outbox(TO)
        assert (row.state, row.attempts, len(channel.attempts)) == (OutboxState.UNCERTAIN, 3, 3)
