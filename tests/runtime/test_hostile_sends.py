"""Channels and programs that do what nobody should: nothing is lost, sent twice, or asked without an end."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Permanence, Topology
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, SendOutcome, Sent, Uncertain
from shardline.content import Delete, Edit, SendRef
from shardline.storage.records import OutboxState
from shardline.testing import FakeChannel, Harness

ALL = ChannelCaps(contents=("text", "media", "edit", "delete", "action"))


def echo() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


def busy(after_s: float | None) -> NotSent:
    return NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=after_s, scope="chat")


@pytest.mark.parametrize("after_s", [0.0, -5.0, -math.inf, math.nan, None, 1e-9])
async def test_a_storm_of_429_that_asks_for_no_wait_gets_one(
    after_s: float | None, autojump_clock: MockClock
) -> None:
    async with Harness(echo()) as bot:
        bot.channel("fake").script(*[busy(after_s)] * 200)
        await bot.say("fake:1", "hi")
        await bot.say("fake:2", "other")
        await bot.settle(until_s=2)
        asked = len(bot.channel("fake").attempts)
        await bot.settle()
        rows = bot.outbox("fake:1")

    assert asked <= 2 * 42, "20 times a second and chat at most"
    assert [row.state for row in rows] == [OutboxState.SENT]
    assert rows[0].attempts == 1


@pytest.mark.parametrize("after_s", [math.inf, 1e300])
async def test_a_wait_without_an_end_has_one(after_s: float, autojump_clock: MockClock) -> None:
    async with Harness(echo()) as bot:
        bot.channel("fake").script(busy(after_s))
        await bot.say("fake:1", "hi")
        await bot.settle()
        sent = bot.sent("fake:1")

    assert sent == ["hi"]


class Raising(FakeChannel):
    """Raises what no channel should."""

    error: BaseException = ValueError()

    async def send(self, out: Outbound) -> SendOutcome:
        self.attempts.append(out)
        if out.text == "hi":
            raise self.error
        return Sent("1")


@pytest.mark.parametrize(
    "error",
    [
        ExceptionGroup("all", [ValueError("a"), ExceptionGroup("deep", [OSError("b")])]),
        BaseExceptionGroup("all", [ValueError("a")]),
        MemoryError(),
        StopAsyncIteration(),
        BusError(Code.RATE_LIMITED, "no outcome, an error"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_a_send_raises_leaves_it_uncertain_and_the_next_goes(
    error: BaseException, autojump_clock: MockClock
) -> None:
    channel = Raising("fake")
    channel.error = error
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say("fake:1", "hi")
        await bot.say("fake:1", "next")
        await bot.settle()
        states = [row.state for row in bot.outbox("fake:1")]

    assert states == [OutboxState.UNCERTAIN, OutboxState.SENT]
    assert [out.text for out in channel.attempts] == ["hi", "next"]


@pytest.mark.parametrize("outcome", [NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT), Sent(None)])
async def test_a_change_of_a_send_that_never_had_a_message_is_dead(
    outcome: SendOutcome, autojump_clock: MockClock
) -> None:
    channel = FakeChannel("fake", ALL)
    async with Harness(echo(), channels=[channel]) as bot:
        channel.script(outcome)
        send = bot.runtime.sender.send
        await send("fake", "fake:1", "first", "k1")
        edit = await send("fake", "fake:1", Edit(SendRef("fake", "k1"), "x"), "k2")
        gone = await send("fake", "fake:1", Delete(SendRef("fake", "k1")), "k3")
        last = await send("fake", "fake:1", "last", "k4")

    assert [(end.status, end.code) for end in (edit, gone)] == [("dead", Code.NOT_FOUND)] * 2
    assert last.status == "sent"
    assert [out.text for out in channel.attempts] == ["first", "last"]


async def test_a_deletion_waits_for_the_send_it_is_about(autojump_clock: MockClock) -> None:
    """The first one is in back-off; its deletion is decided meanwhile and must not overtake it, nor give up."""
    channel = FakeChannel("fake", ALL)
    async with Harness(echo(), channels=[channel]) as bot:
        channel.script(NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT), Sent("p1"))
        send = bot.runtime.sender.send
        first = await send("fake", "fake:1", "first", "k1", timeout_s=0.01)
        gone = await send("fake", "fake:1", Delete(SendRef("fake", "k1")), "k2")

    assert (first.status, gone.status) == ("pending", "sent")
    assert [(type(out.content).__name__, out.target) for out in channel.attempts] == [
        ("Text", None), ("Text", None), ("Delete", "p1"),
    ]  # fmt: skip


async def test_chats_that_move_in_a_circle_end(autojump_clock: MockClock) -> None:
    """a moved to b, b to c, c to a: the circle is not closed, and the send that cannot arrive is dead."""
    channel = FakeChannel("fake")
    async with Harness(echo(), channels=[channel]) as bot:
        channel.script(
            *[
                NotSent(Code.RECIPIENT_NOT_FOUND, Permanence.PERMANENT, moved_to=to)
                for to in ("b", "c", "a", "b", "c", "a", "a")
            ]
        )
        await bot.say("fake:a", "hi")
        await bot.settle()
        row = bot.outbox("fake:a")[0]

    assert [out.address for out in channel.attempts] == ["a", "b", "c"]
    assert row.state is OutboxState.DEAD


async def test_a_message_lifts_the_mark_of_its_sender(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake")
    async with Harness(echo(), channels=[channel]) as bot:
        channel.script(NotSent(Code.RECIPIENT_BLOCKED, Permanence.PERMANENT))
        send = bot.runtime.sender.send
        ends = [await send("fake", "fake:1", "hi", f"k{number}") for number in range(3)]
        asked = len(channel.attempts)
        await bot.say("fake:1", "I am back")
        await bot.settle()
        after = await send("fake", "fake:1", "hi", "k9")

    assert ([end.status for end in ends], asked) == (["dead"] * 3, 1)
    assert after.status == "sent"


async def test_a_text_of_ten_thousand_parts_is_refused_whole(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake", ChannelCaps(max_text=4))
    text = "".join(f"{number:04}" for number in range(10_000))
    async with Harness(echo(), channels=[channel]) as bot:
        with pytest.raises(BusError) as refused:
            await bot.runtime.sender.send("fake", "fake:1", text, "k1")
        rows = bot.outbox("fake:1")

    assert refused.value.code is Code.TOO_LARGE
    assert (rows, channel.attempts) == ([], [])


@pytest.mark.parametrize(
    ("text", "parts"), [("abcd", ["abcd"]), ("abcde", ["abcd", "e"]), ("  a ", ["  a "])]
)
async def test_a_text_at_the_limit_stays_whole(
    text: str, parts: list[str], autojump_clock: MockClock
) -> None:
    channel = FakeChannel("fake", ChannelCaps(max_text=4))
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.runtime.sender.send("fake", "fake:1", text, "k1")

    assert [out.text for out in channel.attempts] == parts


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u2003"])
async def test_a_text_of_nothing_is_refused_before_it_is_stored(text: str, autojump_clock: MockClock) -> None:
    async with Harness(echo()) as bot:
        with pytest.raises(BusError) as refused:
            await bot.runtime.sender.send("fake", "fake:1", text, "k1")
        rows = bot.outbox("fake:1")

    assert (refused.value.code, rows) == (Code.INVALID_MESSAGE, [])


async def test_a_program_that_is_cancelled_while_it_waits_leaves_the_send_alone(
    autojump_clock: MockClock,
) -> None:
    async with Harness(echo()) as bot:
        bot.channel("fake").script(
            NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT), Uncertain("no answer")
        )
        with trio.move_on_after(0.01) as scope:
            await bot.runtime.sender.send("fake", "fake:1", "hi", "k1")
        again = await bot.runtime.sender.send("fake", "fake:1", "hi", "k1")

    assert scope.cancelled_caught
    assert again.status == "uncertain"
