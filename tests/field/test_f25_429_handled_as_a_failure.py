"""F25: a 429 is a pause of its scope, and never an attempt."""

import itertools
from typing import Literal

import pytest
import trio

from shardline import BusMessage, Code, Context, Permanence, RetryPolicy, Topology
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, SendOutcome, Sent, Uncertain
from shardline.testing import Harness
from tests.kits.timed_channel import TimedChannel


async def test_five_times_429_then_sent_once_with_one_attempt(autojump_clock: trio.abc.Clock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    flood = NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=2, scope="chat")
    channel = TimedChannel(answers={"slow": [flood] * 5})
    async with Harness(topology, channels=[channel], send_retry=RetryPolicy(max_retries=2)) as bot:
        await bot.say("fake:1", "slow")
        await bot.settle(until_s=0.5)
        for number in range(2, 12):
            await bot.say(f"fake:{number}", "other")
        await bot.settle(until_s=1)
        assert sum(text == "other" for _, _, text in channel.wire) == 10
        await bot.settle()
        (row,) = bot.outbox("fake:1")

    assert (row.status, row.attempts) == ("sent", 1)
    times = channel.at("1")
    assert len(times) == 6
    assert all(later - earlier >= 2 for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize(("scope", "silent"), [("chat", ["1"]), ("bot", ["1", "2"])])
async def test_the_pause_survives_a_restart_as_wall_time(
    autojump_clock: trio.abc.Clock, scope: Literal["chat", "bot"], silent: list[str]
) -> None:
    """60 s asked for, killed after 10 s, down for 20 s: 30 s are left for whom it concerns, and for nobody else."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    flood = NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=60, scope=scope)
    channel = TimedChannel(answers={"slow": [flood]})
    async with Harness(topology, channels=[channel], store="sqlite-inline") as bot:
        await bot.say("fake:1", "slow")
        await bot.advance(10)
        bot.clock.jump_wall(20_000_000)
        await bot.crash()
        for address in ("1", "2"):
            await bot.say(f"fake:{address}", "other")
        await bot.settle(until_s=29)
        waiting = [address for address in ("1", "2") if "other" not in bot.sent(f"fake:{address}")]
        await bot.settle(until_s=3)
        ends = [bot.sent("fake:1"), bot.sent("fake:2")]
        rows = bot.outbox("fake:1")

    assert waiting == silent
    assert ends == [["slow", "other"], ["other"]]
    assert [row.attempts for row in rows] == [1, 1]


@pytest.mark.parametrize("scope", ["chat", "bot"])
async def test_of_two_pauses_the_longer_one_survives_a_restart(
    autojump_clock: trio.abc.Clock, scope: Literal["chat", "bot"]
) -> None:
    """Two sends were under way when the flood began: the first is told 300 s, the second 1 s."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    class Slow(TimedChannel):
        async def send(self, out: Outbound) -> SendOutcome:
            await trio.sleep(1)
            return await super().send(out)

    def flood(after_s: float) -> NotSent:
        return NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=after_s, scope=scope)

    channel = Slow(answers={"first": [flood(300)], "second": [flood(1)]})
    async with Harness(topology, channels=[channel], store="sqlite-inline") as bot:
        await bot.say("fake:group/1", "first")
        await bot.advance(0.5)
        await bot.say("fake:group/2", "second")
        await bot.advance(2)
        await bot.crash()
        await bot.say("fake:group/3", "other")
        await bot.settle(until_s=295)
        early = [bot.sent(f"fake:group/{number}") for number in (1, 2, 3)]
        await bot.settle()
        ends = [bot.sent(f"fake:group/{number}") for number in (1, 2, 3)]

    assert early == [[], [], []]
    assert ends == [["first"], ["second"], ["other"]]


@pytest.mark.parametrize("on_uncertain", ["park", "resend", "drop"])
async def test_a_429_of_a_look_up_pauses_its_chat_and_decides_nothing(
    autojump_clock: trio.abc.Clock, on_uncertain: str
) -> None:
    """Eight times 60 s, and a restart between: no other request to the chat, then the look-up finds the send."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text, on_uncertain=on_uncertain)

    class Busy(TimedChannel):
        async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
            await trio.lowlevel.checkpoint()
            self.wire.append((trio.current_time(), out.address, "look-up"))
            if len(self.at("1")) > 9:
                return Sent("7")
            return NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=60, scope="chat")

    channel = Busy(caps=ChannelCaps(reconciles=True))
    channel.script(Uncertain("no answer"))
    async with Harness(topology, channels=[channel], store="sqlite-inline") as bot:
        await bot.say("fake:1", "first")
        await bot.say("fake:1", "second")
        await bot.say("fake:2", "other")
        await bot.settle(until_s=90)
        others = bot.sent("fake:2")
        await bot.crash()
        await bot.settle()
        rows = bot.outbox("fake:1")

    assert others == ["other"]
    assert [(row.status, row.attempts) for row in rows] == [("sent", 1), ("sent", 1)]
    sent, *asked = channel.at("1")[:-1]
    assert (len(asked), asked[0] - sent < 1) == (9, True)
    assert all(later - earlier >= 60 for earlier, later in itertools.pairwise(asked))
