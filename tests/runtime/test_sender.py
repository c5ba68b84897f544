"""`runtime.sender`: publishes to the outbox and waits for the end."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from shardline import (
    BusError,
    BusMessage,
    Code,
    Context,
    Delivered,
    Permanence,
    RetryPolicy,
    Runtime,
    Topology,
)
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, Rate, RateLimits, Sent, Uncertain
from shardline.content import Action, Delete, Edit, Media, SendRef
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.testing import FakeChannel, Harness


def silent() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        pass

    return topology


async def test_it_tells_how_the_send_ended(autojump_clock: MockClock) -> None:
    async with Harness(silent(), send_retry=RetryPolicy(max_retries=1)) as bot:
        send = bot.runtime.sender.send
        bot.channel("fake").script(
            NotSent(Code.DELIVERY_PERMANENT, Permanence.TRANSIENT),
            Sent("p1"),
            NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT, text="no"),
            Uncertain("no answer"),
        )
        sent = await send("fake", "fake:1", "hi", "k1")
        dead = await send("fake", "fake:1", "hi", "k2")
        uncertain = await send("fake", "fake:1", "hi", "k3")

    assert (sent.status, sent.platform_message_id, sent.deduped) == ("sent", "p1", False)
    assert (dead.status, dead.code, dead.text) == ("dead", Code.CONTENT_REFUSED, "no")
    assert (uncertain.status, uncertain.code) == ("uncertain", Code.DELIVERY_UNCERTAIN)


@pytest.mark.parametrize("key", ["", " ", None])
async def test_a_missing_key_fails_before_anything_is_stored(key: str, autojump_clock: MockClock) -> None:
    async with Harness(silent()) as bot:
        with pytest.raises(BusError) as refused:
            await bot.runtime.sender.send("fake", "fake:1", "hi", key)
        rows = bot.outbox("fake:1")

    assert refused.value.code is Code.IDEMPOTENCY_KEY_REQUIRED
    assert rows == []


async def test_a_repeat_of_a_sent_key_sends_nothing(autojump_clock: MockClock) -> None:
    async with Harness(silent()) as bot:
        first = await bot.runtime.sender.send("fake", "fake:1", "hi", "k")
        again = await bot.runtime.sender.send("fake", "fake:1", "hi", "k")
        attempts = len(bot.channel("fake").attempts)

    assert (again.status, again.deduped, again.outbox_id) == ("sent", True, first.outbox_id)
    assert again.platform_message_id == first.platform_message_id
    assert attempts == 1


@pytest.mark.parametrize(("key", "text"), [("fake:1", "another"), ("fake:2", "hi")])
async def test_a_key_of_another_send_is_refused(key: str, text: str, autojump_clock: MockClock) -> None:
    async with Harness(silent()) as bot:
        await bot.runtime.sender.send("fake", "fake:1", "hi", "k")
        with pytest.raises(BusError) as refused:
            await bot.runtime.sender.send("fake", key, text, "k")
        attempts = len(bot.channel("fake").attempts)

    assert refused.value.code is Code.IDENTITY_MISMATCH
    assert attempts == 1


async def test_a_time_out_says_pending_and_decides_nothing(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake", ChannelCaps(limits=RateLimits(bot=Rate(1.0))))
    async with Harness(silent(), channels=[channel]) as bot:
        send = bot.runtime.sender.send
        await send("fake", "fake:1", "first", "k1")
        pending = await send("fake", "fake:1", "second", "k2", timeout_s=0.1)
        none = await send("fake", "fake:1", "third", "k3", timeout_s=0)
        later = await send("fake", "fake:1", "second", "k2")
        await bot.settle()
        texts = bot.sent("fake:1")

    assert (pending.status, none.status) == ("pending", "pending")
    assert (later.status, later.deduped, later.outbox_id) == ("sent", False, pending.outbox_id)
    assert texts == ["first", "second", "third"]


async def tell(bot: Harness, number: int) -> None:
    await bot.runtime.sender.send("fake", f"fake:{number}", "news", f"k{number}", bulk=True)


async def test_people_are_answered_before_a_broadcast_of_a_program(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake", ChannelCaps(limits=RateLimits(bot=Rate(1.0))))
    async with Harness(silent(), channels=[channel]) as bot:
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(tell, bot, number)
            await trio.sleep(0.5)
            await bot.runtime.sender.send("fake", "fake:me", "answer", "mine")
        order = [out.text for out in channel.delivered]

    assert order.index("answer") == 1


async def test_a_turn_may_wait_for_a_send_of_its_own_conversation(autojump_clock: MockClock) -> None:
    topology, bots, seen = Topology(), list[Harness](), list[str]()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("with the end of the turn")
        send = bots[0].runtime.sender.send
        delivered = await send("fake", message.conversation_key, "at once", message.id)
        seen.append(delivered.status)

    async with Harness(topology) as bot:
        bots.append(bot)
        await bot.say("fake:1", "hi")
        await bot.settle()
        texts = bot.sent("fake:1")

    assert seen == ["sent"]
    assert texts == ["at once", "with the end of the turn"]


async def test_a_look_up_that_cannot_tell_ends_the_wait(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake", ChannelCaps(reconciles=True))
    channel.answer_lookups(None)
    async with Harness(silent(), channels=[channel]) as bot:
        channel.script(Uncertain("no answer"))
        with trio.fail_after(60):
            first = await bot.runtime.sender.send("fake", "fake:1", "hi", "k")
            again = await bot.runtime.sender.send("fake", "fake:1", "hi", "k")

    assert (first.status, again.status) == ("uncertain", "uncertain")


async def test_a_repeat_waits_for_the_look_ups_that_go_on(autojump_clock: MockClock) -> None:
    """Nobody has to decide as long as the channel is still asked."""

    class Slow(FakeChannel):
        async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
            self.lookups.append(out)
            if len(self.lookups) < 3:
                raise OSError("not now")
            return Sent("9")

    channel = Slow("fake", ChannelCaps(reconciles=True))
    async with Harness(silent(), channels=[channel]) as bot:
        channel.script(Uncertain("no answer"))
        with trio.fail_after(60):
            first = await bot.runtime.sender.send("fake", "fake:1", "hi", "k", timeout_s=0.01)
            again = await bot.runtime.sender.send("fake", "fake:1", "hi", "k")

    assert (first.status, again.status, again.platform_message_id) == ("pending", "sent", "9")
    assert (len(channel.attempts), len(channel.lookups)) == (1, 3)


async def test_a_text_of_several_parts_has_ended_when_its_last_part_has(autojump_clock: MockClock) -> None:
    channel = FakeChannel(caps=ChannelCaps(max_text=4))
    async with Harness(silent(), channels=[channel]) as bot:
        whole = await bot.runtime.sender.send("fake", "fake:a", "aaaabbbbcccc", "k1")
        assert (whole.status, bot.sent("fake:a")) == ("sent", ["aaaa", "bbbb", "cccc"])
        again = await bot.runtime.sender.send("fake", "fake:a", "aaaabbbbcccc", "k1")
        assert (again.status, again.deduped) == ("sent", True)
        assert len(channel.attempts) == 3

        channel.script(Sent("1"), Uncertain("no answer"))
        unknown = await bot.runtime.sender.send("fake", "fake:a", "aaaabbbbcccc", "k2")
        assert (unknown.status, unknown.outbox_id) == ("uncertain", bot.outbox("fake:a")[4].id)


@pytest.mark.parametrize("later", [2, 3, 8, 100])
async def test_a_repeat_is_known_however_the_channel_cuts_by_now(
    later: int, autojump_clock: MockClock
) -> None:
    """A version later the channel takes another length: nothing of the text goes out again."""
    database, text = MemoryDatabase(), "aaaabbbbcccc"

    async def send_by(channel: FakeChannel, text: str, key: str) -> Delivered:
        async with Runtime.open(
            silent(), store=open_memory(database=database), adapters=[channel]
        ) as runtime:
            return await runtime.sender.send("fake", "fake:a", text, key)

    first, second = (FakeChannel(caps=ChannelCaps(max_text=length)) for length in (4, later))
    assert (await send_by(first, text, "k")).status == "sent"
    again = await send_by(second, text, "k")
    assert (again.status, again.deduped, second.attempts) == ("sent", True, [])
    with pytest.raises(BusError) as refused:
        await send_by(second, text + "d", "k")
    assert (refused.value.code, second.attempts) == (Code.IDENTITY_MISMATCH, [])


async def test_a_repeat_sends_nothing_of_a_text_that_the_platform_had_cut_once_more(
    autojump_clock: MockClock,
) -> None:
    """The platform takes less than the channel says, and the next version says so."""
    database, topology = MemoryDatabase(), Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.send("fake", "fake:z", "aaaabbbb", idempotency_key="from a turn")

    first, second = (FakeChannel(caps=ChannelCaps(max_text=length)) for length in (100, 4))
    too_large = NotSent(Code.TOO_LARGE, Permanence.PERMANENT, max_text=4)
    first.script(too_large, Sent("1"), Sent("2"), too_large)

    async def run_with(channel: FakeChannel, message_id: str) -> str:
        async with Runtime.open(
            topology, store=open_memory(database=database), adapters=[channel]
        ) as runtime:
            delivered = await runtime.sender.send("fake", "fake:a", "aaaabbbb", "k")
            await channel.say("b", "hi", platform_message_id=message_id)
            await runtime.wait_until(lambda: runtime.is_quiet)
            return delivered.status

    states = [await run_with(first, "0"), await run_with(second, "1")]

    assert states == ["sent", "sent"]
    assert [out.text for out in first.delivered] == ["aaaa", "bbbb", "aaaa", "bbbb"]
    assert second.attempts == []


async def test_it_takes_all_that_a_handler_may_send(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake", ChannelCaps(contents=("text", "media", "edit", "delete", "action")))
    async with Harness(silent(), channels=[channel]) as bot:
        send = bot.runtime.sender.send
        channel.script(Sent("p1"))
        ends = [
            await send("fake", "fake:1", "hi", "k1"),
            await send("fake", "fake:1", Media("photo", file_id="f"), "k2"),
            await send("fake", "fake:1", Edit(SendRef("fake", "k1"), "hello"), "k3"),
            await send("fake", "fake:1", Action("react", {"emoji": "+"}), "k4"),
            await send("fake", "fake:1", Delete(SendRef("fake", "k1")), "k5"),
        ]
        gone = await send("fake", "fake:1", Delete(SendRef("fake", "nothing")), "k6")
        again = await send("fake", "fake:1", Delete(SendRef("fake", "k1")), "k5")
        with pytest.raises(BusError) as refused:
            await send("fake", "fake:1", Edit(SendRef("fake", "k1"), "other"), "k3")

    assert [end.status for end in ends] == ["sent"] * 5
    assert [(type(out.content).__name__, out.target) for out in channel.attempts] == [
        ("Text", None), ("Media", None), ("Edit", "p1"), ("Action", None), ("Delete", "p1"),
    ]  # fmt: skip
    assert (gone.status, gone.code) == ("dead", Code.NOT_FOUND)
    assert (again.status, again.deduped) == ("sent", True)
    assert refused.value.code is Code.IDENTITY_MISMATCH


async def test_it_waits_for_the_pieces_of_a_text_that_was_cut_once_more(autojump_clock: MockClock) -> None:
    """The platform found a part too long: it is sent when its last piece is, and dead where a piece is."""
    too_long = NotSent(Code.TOO_LARGE, Permanence.PERMANENT)
    channel = FakeChannel("fake", ChannelCaps(max_text=6))
    async with Harness(silent(), channels=[channel]) as bot:
        send = bot.runtime.sender.send
        channel.script(too_long, Sent("1"), NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT, text="no"))
        dead = await send("fake", "fake:1", "aaabbbcccddd", "k1")
        channel.script(too_long)
        sent = await send("fake", "fake:2", "aaabbbcccddd", "k2")
        texts = bot.sent("fake:2")
        again = await send("fake", "fake:2", "aaabbbcccddd", "k2")

    assert (dead.status, dead.code) == ("dead", Code.CONTENT_REFUSED)
    assert (sent.status, sent.deduped) == ("sent", False)
    assert texts == ["aaa", "bbb", "cccddd"]
    assert (again.status, again.deduped, again.outbox_id) == ("sent", True, sent.outbox_id)
