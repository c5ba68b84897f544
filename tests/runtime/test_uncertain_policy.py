"""A send whose result nobody knows: the message's own policy decides, else what the channel can do, at each door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Literal

import pytest
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, RetryPolicy, Topology
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, Sent, Uncertain
from shardline.storage.records import OutboxState
from shardline.testing import FakeChannel, Harness

Policy = Literal["park", "resend", "drop"]
Own = Policy | None
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


END_OF: Final[dict[Policy, tuple[OutboxState, int]]] = {
    "park": (OutboxState.UNCERTAIN, 1),
    "resend": (OutboxState.SENT, 2),
    "drop": (OutboxState.DEAD, 1),
}
ENDS = [
    pytest.param(PLAIN, None, OutboxState.UNCERTAIN, 1, id="channel-parks"),
    pytest.param(DROPS_COPIES, None, OutboxState.SENT, 2, id="channel-resends"),
    *(
        pytest.param(
            ChannelCaps(on_uncertain=policy, deduplicates=drops),
            None,
            *END_OF[policy],
            id=f"{policy}-declared-{drops}",
        )
        for policy in END_OF
        for drops in (False, True)
    ),
    *(
        pytest.param(caps, own, *END_OF[own], id=f"{own}-{name}")
        for name, caps in {
            "plain": PLAIN,
            "drops-copies": DROPS_COPIES,
            "parks": ChannelCaps(on_uncertain="park"),
            "resends": ChannelCaps(on_uncertain="resend"),
            "drops": ChannelCaps(on_uncertain="drop"),
        }.items()
        for own in END_OF
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


class LooksUp(FakeChannel):
    """A channel that can be asked; `found` is what it knows of each send."""

    def __init__(self, policy: Policy, found: Sent | NotSent | None) -> None:
        super().__init__("fake", ChannelCaps(reconciles=True, on_uncertain=policy))
        self.found = found

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        return self.found


@pytest.mark.parametrize("policy", END_OF)
async def test_a_channel_that_knows_is_believed_before_its_policy(
    autojump_clock: MockClock, policy: Policy
) -> None:
    channel = LooksUp(policy, Sent("1"))
    async with Harness(saying(reply, None), channels=[channel]) as bot:
        channel.script(Uncertain("no answer"), Sent("2"))
        await bot.say(TO, "hi")
        await bot.settle()

        [row] = bot.outbox(TO)
        assert (row.state, row.platform_message_id, len(channel.attempts)) == (OutboxState.SENT, "1", 1)


@pytest.mark.parametrize("policy", END_OF)
async def test_where_a_channel_cannot_tell_its_policy_decides(
    autojump_clock: MockClock, policy: Policy
) -> None:
    channel = LooksUp(policy, None)
    async with Harness(saying(reply, None), channels=[channel]) as bot:
        channel.script(Uncertain("no answer"), Sent("2"))
        await bot.say(TO, "hi")
        await bot.settle()

        [row] = bot.outbox(TO)
        assert (row.state, len(channel.attempts)) == END_OF[policy]


def test_a_policy_that_is_none_is_refused_where_it_is_declared() -> None:
    with pytest.raises(BusError) as caught:
        ChannelCaps(on_uncertain="retry")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    assert (caught.value.code, caught.value.context["field"]) == (Code.INVALID_MESSAGE, "on_uncertain")
