"""Long texts: a row a part, in order, whichever way the text comes."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Direction, MessageEnvelope, Permanence, Topology
from shardline.actors.identifiers import new_uuid7
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, SendOutcome, Sent, Uncertain
from shardline.runtime.operators import Decision
from shardline.storage.records import OutboxState
from shardline.testing import FakeChannel, Harness

SHORT = ChannelCaps(max_text=4)


def bot_that(sends: str) -> Topology:
    """`reply`, `send` to another home, `send_now` a text of three parts; with a message behind it."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        match sends:
            case "reply":
                ctx.reply("aaaabbbbc")
            case "send":
                ctx.send("fake", "fake:other", "aaaabbbbc", idempotency_key="mine")
                ctx.send("fake", "fake:other", "next")
            case _:
                await ctx.send_now("long", "aaaabbbbc")
        ctx.reply("next")

    return topology


def outbound(text: str, idem: str) -> BusMessage:
    message_id = new_uuid7()
    return BusMessage(
        id=message_id,
        direction=Direction.OUTBOUND,
        channel="fake",
        topic="chat.message",
        conversation_key="fake:1",
        idempotency_key=idem,
        correlation_id=message_id,
        payload=MessageEnvelope(
            message_id=message_id, text=text, sent_at="2026-01-01T00:00:00Z", session_id=new_uuid7()
        ),
        created_at_us=1_767_225_600_000_000,
    )


@pytest.mark.parametrize("sends", ["reply", "send", "send_now"])
async def test_a_turns_long_text_goes_out_in_parts(autojump_clock: MockClock, sends: str) -> None:
    async with Harness(bot_that(sends), channels=[FakeChannel("fake", SHORT)]) as bot:
        await bot.say("fake:1", "go")
        await bot.settle()
        key = "fake:other" if sends == "send" else "fake:1"
        rows = bot.outbox(key)

        assert bot.sent(key) == ["aaaa", "bbbb", "c", "next"]
        assert [row.part for row in rows] == [0, 1_000, 2_000, 0]
        assert len({row.seq for row in rows[:3]}) == 1
        assert len({row.idempotency_key for row in rows[:3]}) == 1


async def test_an_outbound_message_goes_out_in_parts_and_once(autojump_clock: MockClock) -> None:
    async with Harness(bot_that("reply"), channels=[FakeChannel("fake", SHORT)]) as bot:
        first = await bot.runtime.publish(outbound("aaaabb", "k"))
        again = await bot.runtime.publish(outbound("aaaabb", "k"))
        await bot.settle()

        assert (first.duplicate, again.duplicate, again.event_id) == (False, True, first.event_id)
        assert bot.sent("fake:1") == ["aaaa", "bb"]


async def test_a_repeat_is_known_where_its_channel_takes_the_whole_text_by_now(
    autojump_clock: MockClock,
) -> None:
    """Stored in two parts; the next version of the channel takes it in one, and the repeat was refused."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.send("fake", "fake:other", "aaaabb", idempotency_key="mine")

    channel = FakeChannel("fake", SHORT)
    async with Harness(topology, channels=[channel]) as bot:
        await bot.say("fake:1", "once")
        await bot.runtime.publish(outbound("aaaabb", "k"))
        await bot.settle()
        channel.caps = ChannelCaps(max_text=8)
        await bot.crash()
        await bot.say("fake:1", "again")
        again = await bot.runtime.publish(outbound("aaaabb", "k"))
        await bot.settle()

        assert again.duplicate
        assert bot.dead() == []
        assert [bot.sent(key) for key in ("fake:other", "fake:1")] == [["aaaa", "bb"]] * 2


@pytest.mark.parametrize("other", ["aaaa", "aaaabc", "aaaabbbbcc", "xaaabb"])
async def test_a_key_that_sent_another_text_is_refused_whole(autojump_clock: MockClock, other: str) -> None:
    async with Harness(bot_that("reply"), channels=[FakeChannel("fake", SHORT)]) as bot:
        await bot.runtime.publish(outbound("aaaabb", "k"))
        with pytest.raises(BusError) as caught:
            await bot.runtime.publish(outbound(other, "k"))
        await bot.settle()

        assert caught.value.code is Code.IDENTITY_MISMATCH
        assert bot.sent("fake:1") == ["aaaa", "bb"]


async def test_a_part_of_white_space_alone_is_not_sent(autojump_clock: MockClock) -> None:
    async with Harness(bot_that("reply"), channels=[FakeChannel("fake", SHORT)]) as bot:
        await bot.runtime.publish(outbound("aaaa" + " " * 9 + "b", "k"))
        await bot.settle()

        assert [text.strip() for text in bot.sent("fake:1")] == ["aaaa", "b"]


async def test_more_than_a_thousand_parts_are_refused(autojump_clock: MockClock) -> None:
    async with Harness(bot_that("reply"), channels=[FakeChannel("fake", SHORT)]) as bot:
        with pytest.raises(BusError) as caught:
            await bot.runtime.publish(outbound("a" * 4_001, "k"))

        assert caught.value.code is Code.TOO_LARGE
        assert bot.outbox("fake:1") == []


@attrs.define
class Cutter(FakeChannel):
    """Cuts at commas, or answers what a test says."""

    answer: object = None

    def split(self, text: str) -> list[str]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return text.split(",") if self.answer is None else self.answer  # type: ignore[return-value]  # that is the test


async def test_an_adapter_may_cut_texts_itself(autojump_clock: MockClock) -> None:
    async with Harness(bot_that("reply"), channels=[Cutter("fake")]) as bot:
        await bot.runtime.publish(outbound("one,two,three", "k"))
        await bot.settle()

        assert bot.sent("fake:1") == ["one", "two", "three"]


@pytest.mark.parametrize("answer", [[], ["a", " "], ["a", 1], "ab", ValueError("no")])
async def test_a_wrong_split_fails_the_send_alone(autojump_clock: MockClock, answer: object) -> None:
    async with Harness(bot_that("reply"), channels=[Cutter("fake", answer=answer)]) as bot:
        await bot.say("fake:1", "go")
        await bot.settle()

        (dead,) = bot.dead()
        assert dead.record.errors[-1].code == Code.INVALID_MESSAGE
        assert bot.outbox("fake:1") == []


async def test_parts_keep_their_order_beside_a_full_window(autojump_clock: MockClock) -> None:
    async with Harness(bot_that("reply"), channels=[FakeChannel("fake", SHORT)], max_inflight=1) as bot:
        texts = ["".join(f"{number:02}{part:02}" for part in range(20)) for number in range(5)]
        for number, text in enumerate(texts):
            await bot.runtime.publish(outbound(text, f"k{number}"))
        await bot.settle()

        assert "".join(bot.sent("fake:1")) == "".join(texts)


async def test_whoever_waits_for_an_outbound_message_waits_for_all_its_parts(
    autojump_clock: MockClock,
) -> None:
    channel = FakeChannel("fake", SHORT)
    async with Harness(bot_that("reply"), channels=[channel]) as bot:
        channel.script(Sent("1"), NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT))
        dead = await bot.runtime.publish(outbound("aaaabbbbc", "k1"), wait="handled")
        channel.script(Sent("1"), Sent("2"), Uncertain("no answer"))
        parked = await bot.runtime.publish(outbound("aaaabbbbc", "k2"), wait="handled")
        done = await bot.runtime.publish(outbound("ddddeeeef", "k3"), wait="handled")
        texts = bot.sent("fake:1")

    assert (dead.status, dead.code) == ("dead", Code.CONTENT_REFUSED)
    assert (parked.status, parked.code) == ("parked", Code.DELIVERY_UNCERTAIN)
    assert done.status == "done"
    assert texts == ["aaaa", "aaaa", "bbbb", "dddd", "eeee", "f"]


async def test_parts_behind_one_that_the_policy_drops_end_with_it_at_a_start_too(
    autojump_clock: MockClock,
) -> None:
    """The process dies while the first part is under way: it is dropped, and nobody has to decide about the rest."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("aaaabbbbc", on_uncertain="drop")

    class Slow(FakeChannel):
        async def send(self, out: Outbound) -> SendOutcome:
            await trio.sleep(10)
            return await super().send(out)

    async with Harness(topology, channels=[Slow("fake", SHORT)], store="sqlite-inline") as bot:
        await bot.say("fake:1", "go")
        await bot.advance(1)
        await bot.crash()
        await bot.settle()
        rows = bot.outbox("fake:1")

    assert [row.state for row in rows] == [OutboxState.DEAD] * 3
    assert {row.errors[-1].code for row in rows} == {Code.DELIVERY_UNCERTAIN}


async def test_parts_behind_one_that_was_purged_can_be_given_up(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake", SHORT)
    async with Harness(bot_that("reply"), channels=[channel]) as bot:
        channel.script(NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT))
        await bot.say("fake:1", "go")
        await bot.settle()
        await bot.runtime.dead_letters.purge(bot.clock.wall_us())
        purged = bot.outbox("fake:1")[0]
        await bot.runtime.outbox.resolve(purged.id, "dead")
        states = [row.state for row in bot.outbox("fake:1")]
        with pytest.raises(BusError) as refused:
            await bot.runtime.outbox.resolve(purged.id, "dead")

    assert states == [OutboxState.PURGED, OutboxState.DEAD, OutboxState.DEAD, OutboxState.SENT]
    assert refused.value.code is Code.INVALID_TRANSITION


@pytest.mark.parametrize("ends", ["drop", "cancel"])
async def test_what_is_behind_a_text_of_many_parts_that_was_given_up_goes_out(
    ends: str, autojump_clock: MockClock
) -> None:
    """More parts than a lane reads at once: they leave memory, and what is behind them was never there."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("hi")
        ctx.reply("aaaa" * 12, on_uncertain="drop")
        ctx.reply("next")

    class Slow(FakeChannel):
        async def send(self, out: Outbound) -> SendOutcome:
            await trio.sleep(5)
            return await super().send(out)

    channel = Slow("fake", SHORT)
    channel.script(Sent("1"))
    async with Harness(topology, channels=[channel]) as bot:
        await bot.say("fake:1", "go")
        await bot.advance(1)
        if ends == "drop":
            channel.script(Uncertain("no answer"))
        else:
            await bot.runtime.outbox.cancel(bot.outbox("fake:1")[1].id)
        await bot.settle(until_s=100)

        assert bot.sent("fake:1") == ["hi", "next"]
        assert [row.state for row in bot.outbox("fake:1")[1:-1]] == [OutboxState.DEAD] * 12


@pytest.mark.parametrize("decision", ["sent", "resend", "dead"])
async def test_a_decision_that_comes_too_late_leaves_the_parts_behind_where_they_are(
    decision: Decision, autojump_clock: MockClock
) -> None:
    """A look-up ends in the very moment in which a person decides: one of them wins, and the text goes on."""

    class Slow(FakeChannel):
        async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
            await trio.sleep_until(looked_up_s)
            return Sent("7")

    late: set[Code] = set()
    for ticks in [*range(4)] * 5:
        channel = Slow("fake", attrs.evolve(SHORT, reconciles=True))
        channel.script(Uncertain("no answer"))
        looked_up_s = trio.current_time() + 1
        async with Harness(bot_that("reply"), channels=[channel]) as bot:
            await bot.say("fake:1", "go")
            await trio.sleep_until(looked_up_s)
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
            try:
                await bot.runtime.outbox.resolve(bot.outbox("fake:1")[0].id, decision)
            except BusError as refused:
                late.add(refused.code)
            await bot.settle(until_s=100)
            ended = {row.state for row in bot.outbox("fake:1")}

        assert ended <= {OutboxState.SENT, OutboxState.DEAD}
    assert late == {Code.INVALID_TRANSITION}
