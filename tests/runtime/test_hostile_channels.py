"""Adapters that answer rubbish: it costs the one send, never the channel, the shard or the runtime."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Code, Context, Permanence, RetryPolicy, Topology
from shardline.adapters.base import (
    ChannelCaps,
    Chat,
    NotSent,
    Outbound,
    Rate,
    RateLimits,
    SendOutcome,
    Sent,
    Uncertain,
)
from shardline.storage.records import OutboxState
from shardline.testing import FakeChannel, Harness

KEY = "fake:1"


class Evil:
    """Says nothing of itself."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


def echo() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


@attrs.define
class Odd(FakeChannel):
    """Answers one text with whatever a test has it answer."""

    answers: list[Any] = attrs.field(factory=list)

    async def send(self, out: Outbound) -> SendOutcome:
        if out.text == "odd" and self.answers:
            await trio.lowlevel.checkpoint()
            self.attempts.append(out)
            answer: SendOutcome = self.answers.pop(0)
            return answer
        return await FakeChannel.send(self, out)


async def ends_of(
    answer: object, clock: MockClock, *, until_s: float | None = None
) -> tuple[list[str], int, int]:
    """What became of an odd send and of the next one, how often the first was tried, and how many actors crashed."""
    channel = Odd("fake", answers=[answer])
    async with Harness(echo(), channels=[channel]) as bot:
        await bot.say(KEY, "odd")
        await bot.say(KEY, "next")
        await bot.say("fake:2", "other")
        await bot.settle(until_s=until_s)
        states = [row.state.value for row in bot.outbox(KEY)]
        crashes = bot.runtime.counters.get("crashes", 0)
        assert bot.sent("fake:2") == ["other"]
    return states, sum(out.text == "odd" for out in channel.attempts), crashes


@pytest.mark.parametrize(
    "after_s",
    ["soon", "5", b"5", True, [], Evil(), 10**400, -(10**400), 1e308],
    ids=lambda value: type(value).__name__,
)
async def test_a_wait_that_is_none_is_no_end_of_the_send(after_s: Any, autojump_clock: MockClock) -> None:
    flood = NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=after_s)
    states, tries, crashes = await ends_of(flood, autojump_clock)

    assert (states, tries, crashes) == (["sent", "sent"], 2, 0)


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (None, "uncertain"),
        ("ok", "uncertain"),
        (Evil(), "uncertain"),
        ({"ok": True}, "uncertain"),
        (Sent(7), "sent"),  # type: ignore[arg-type]  # what adapters pass
        (Sent(10**5000), "uncertain"),  # type: ignore[arg-type]  # too long to be told
        (Sent(Evil()), "uncertain"),  # type: ignore[arg-type]  # cannot be told
        (Sent("a" * 100_000), "sent"),
        (Sent("\ud800"), "sent"),
        (Uncertain(Evil()), "uncertain"),  # type: ignore[arg-type]  # cannot be told
        (NotSent("gone", Permanence.PERMANENT), "uncertain"),  # type: ignore[arg-type]  # no code of ours
        (NotSent(Code.CONTENT_REFUSED, "for ever"), "uncertain"),  # type: ignore[arg-type]  # no permanence
        (NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT, text=Evil()), "uncertain"),  # type: ignore[arg-type]  # no text
        (NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT, moved_to=Evil()), "dead"),  # type: ignore[arg-type]  # no address
        (NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT, moved_to="a" * 100_000), "dead"),
        (NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT, scope=Evil()), "dead"),  # type: ignore[arg-type]  # no scope
    ],
)
async def test_an_answer_that_is_none_costs_its_own_send(
    answer: object, state: str, autojump_clock: MockClock
) -> None:
    states, tries, crashes = await ends_of(answer, autojump_clock)

    assert (states, tries, crashes) == ([state, "sent"], 1, 0)


@attrs.define
class Chats(FakeChannel):
    """Says of one address that its chat is something else than a chat."""

    answer: Any = None

    def chat_of(self, address: str) -> Chat:
        if address != "1":
            return Chat(address)
        if isinstance(self.answer, Exception):
            raise self.answer
        chat: Chat = self.answer
        return chat


NO_ID: Any = None
NO_CHATS: dict[str, Any] = {
    "an error": KeyError("1"),
    "none": None,
    "a text": "1",
    "without id": Chat(NO_ID),
    "an empty id": Chat(""),
    "an id that cannot be stored": Chat("\ud800"),
}


@pytest.mark.parametrize("answer", NO_CHATS.values(), ids=NO_CHATS)
@pytest.mark.parametrize("limits", [RateLimits(), RateLimits(chat=Rate(1.0), bot=Rate(10.0))])
async def test_a_chat_that_cannot_be_named_counts_as_its_own(
    answer: object, limits: RateLimits, autojump_clock: MockClock
) -> None:
    channel = Chats("fake", ChannelCaps(limits=limits), answer=answer)
    async with Harness(echo(), channels=[channel], store="sqlite-inline") as bot:
        channel.script(NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=1))
        await bot.say(KEY, "a")
        await bot.settle(until_s=0.5)
        await bot.say("fake:2", "b")
        await bot.settle()
        await bot.crash()
        await bot.say(KEY, "c")
        await bot.settle()
        sent, crashes = [bot.sent(KEY), bot.sent("fake:2")], bot.runtime.counters.get("crashes", 0)

    assert (sent, crashes) == ([["a", "c"], ["b"]], 0)


async def test_a_send_that_hangs_ends_at_its_time_and_the_next_goes(autojump_clock: MockClock) -> None:
    class Hanging(FakeChannel):
        async def send(self, out: Outbound) -> SendOutcome:
            if out.text == "hang":
                await trio.sleep_forever()
            return await FakeChannel.send(self, out)

    channel = Hanging("fake", ChannelCaps(send_timeout_s=5, concurrency=1))
    async with Harness(echo(), channels=[channel]) as bot:
        begun_s = trio.current_time()
        for chat in range(3):
            await bot.say(f"fake:{chat}", "hang")
        await bot.say("fake:0", "next")
        await bot.settle()
        took_s = trio.current_time() - begun_s
        rows = bot.outbox("fake:0")

    assert [row.state for row in rows] == [OutboxState.UNCERTAIN, OutboxState.SENT]
    assert rows[0].errors[-1].text == "timed out"
    assert took_s == pytest.approx(15, abs=0.5)


async def test_a_cancellation_out_of_nowhere_ends_its_own_send(autojump_clock: MockClock) -> None:
    """The adapter keeps a cancellation and raises it later, when nothing is cancelled."""

    class Stray(FakeChannel):
        async def send(self, out: Outbound) -> SendOutcome:
            if out.text == "odd":
                kept: list[trio.Cancelled] = []
                with trio.CancelScope() as scope:
                    scope.cancel()
                    try:
                        await trio.lowlevel.checkpoint()
                    except trio.Cancelled as error:
                        kept.append(error)
                        raise
                raise kept[0]
            return await FakeChannel.send(self, out)

    async with Harness(echo(), channels=[Stray("fake")]) as bot:
        for text in ("odd", "next"):
            await bot.say(KEY, text)
        await bot.settle()
        states = [row.state.value for row in bot.outbox(KEY)]
        crashes = bot.runtime.counters.get("crashes", 0)

    assert (states, crashes) == (["uncertain", "sent"], 0)


async def test_a_look_up_that_answers_rubbish_leaves_the_send_to_a_person(autojump_clock: MockClock) -> None:
    class Looking(FakeChannel):
        async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
            await trio.lowlevel.checkpoint()
            self.lookups.append(out)
            answer: Any = Evil()
            return answer  # type: ignore[no-any-return]  # what adapters pass

    channel = Looking("fake", ChannelCaps(reconciles=True))
    retry = RetryPolicy(max_retries=2, base_delay_s=0.1)
    async with Harness(echo(), channels=[channel], send_retry=retry) as bot:
        channel.script(Uncertain("no answer"))
        await bot.say(KEY, "hi")
        await bot.say(KEY, "next")
        await bot.settle()
        states = [row.state.value for row in bot.outbox(KEY)]
        crashes = bot.runtime.counters.get("crashes", 0)

    assert (states, len(channel.lookups), crashes) == (["uncertain", "sent"], 3, 0)


class Refusing(FakeChannel):
    """Has the message, and refuses the first two questions for it."""

    code = Code.RATE_LIMITED

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        self.lookups.append(out)
        return NotSent(self.code, Permanence.TRANSIENT) if len(self.lookups) < 3 else Sent("7")


async def test_a_look_up_that_is_refused_says_nothing_of_the_send(autojump_clock: MockClock) -> None:
    """It must not go out twice."""
    channel = Refusing("fake", ChannelCaps(reconciles=True))
    async with Harness(echo(), channels=[channel]) as bot:
        channel.script(Uncertain("no answer"))
        await bot.say(KEY, "hi")
        await bot.settle()
        (row,) = bot.outbox(KEY)

    assert (row.state, row.platform_message_id) == (OutboxState.SENT, "7")
    assert (len(channel.lookups), len(channel.attempts)) == (3, 1)


async def test_a_look_up_with_refused_credentials_stops_the_channel_and_keeps_the_row(
    autojump_clock: MockClock,
) -> None:
    channel = Refusing("fake", ChannelCaps(reconciles=True))
    channel.code = Code.BAD_TOKEN
    async with Harness(echo(), channels=[channel]) as bot:
        channel.script(Uncertain("no answer"))
        await bot.say(KEY, "hi")
        await bot.advance(3_600)
        states = [row.state for row in bot.outbox(KEY)]
        stopped = bot.runtime.status().channels["fake"].is_stopped
        asked = len(channel.lookups)
        channel.code = Code.RATE_LIMITED
        await bot.crash()
        await bot.settle()
        (row,) = bot.outbox(KEY)

    assert (states, stopped, asked) == ([OutboxState.UNCERTAIN], True, 1)
    assert (row.state, row.platform_message_id) == (OutboxState.SENT, "7")
    assert (len(channel.lookups), len(channel.attempts)) == (3, 1)
