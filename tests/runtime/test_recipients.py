"""Chats that move and recipients that cannot be reached."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from shardline import BusMessage, Code, Context, Permanence, Topology
from shardline.adapters.base import Inbound, NotSent, Uncertain
from shardline.runtime.unreachable import Unreachable
from shardline.testing import Harness
from tests.kits.words import refused

DAY_S = 86_400
BLOCKED = NotSent(Code.RECIPIENT_BLOCKED, Permanence.PERMANENT, text="blocked by the user")


def gone(to: str) -> NotSent:
    return NotSent(Code.RECIPIENT_NOT_FOUND, Permanence.PERMANENT, text="moved", moved_to=to)


def counting() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        ctx.reply(f"{turns + 1}: {message.payload.text}")

    return topology


def wire(bot: Harness) -> list[tuple[str, str]]:
    return [(out.address, out.text) for out in bot.channel("fake").attempts]


async def test_what_is_sent_goes_to_where_the_chat_is_at_once_and_in_order(autojump_clock: MockClock) -> None:
    async with Harness(counting(), store="sqlite-inline") as bot:
        bot.channel("fake").script(gone("b"))
        for text in ("x", "y"):
            await bot.say("fake:a", text)
        await bot.settle(until_s=0.01)
        rows = bot.outbox("fake:a")
        assert wire(bot) == [("a", "1: x"), ("b", "1: x"), ("b", "2: y")]
        assert [(row.status, row.attempts, row.errors) for row in rows] == [("sent", 1, ())] * 2
        assert bot.runtime.status().channels["fake"].moved_chats == 1

        await bot.crash()
        await bot.say("fake:b", "z")
        await bot.settle()
        assert wire(bot)[-1] == ("b", "3: z"), "the same conversation, its state and its order"
        assert [row.conversation_key for row in bot.outbox("fake:a")] == ["fake:a"] * 3


@pytest.mark.parametrize("side", ["old", "new"])
async def test_either_side_may_tell_and_once_is_enough(side: str, autojump_clock: MockClock) -> None:
    old = Inbound(platform_message_id="s1", address="a", text="(moved)", moved_to="b")
    new = Inbound(platform_message_id="s2", address="b", text="(moved)", moved_from="a")
    first, second = (old, new) if side == "old" else (new, old)
    async with Harness(counting()) as bot:
        for inbound in (first, second, first):
            await bot.channel("fake").read(inbound)
        await bot.settle()
        assert [one.record.conversation_key for one in bot.runtime.messages.list()] == ["fake:a"] * 2
        await bot.crash()
        await bot.say("fake:b", "hi")
        await bot.settle()

    assert wire(bot)[-1] == ("b", "3: hi")
    assert {address for address, _ in wire(bot)} == {"b"}


async def test_a_chat_that_moves_again_is_followed(autojump_clock: MockClock) -> None:
    async with Harness(counting()) as bot:
        bot.channel("fake").script(gone("b"), gone("c"))
        await bot.say("fake:a", "x")
        await bot.settle()
        for address in ("a", "b", "c"):
            await bot.say(f"fake:{address}", address)
        await bot.settle()
        await bot.crash()
        await bot.say("fake:c", "again")
        await bot.settle()

    assert [address for address, _ in wire(bot)] == ["a", "b", "c", "c", "c", "c", "c"]
    assert wire(bot)[-1] == ("c", "5: again")


async def test_two_addresses_that_name_each_other_are_no_move(autojump_clock: MockClock) -> None:
    async with Harness(counting()) as bot:
        bot.channel("fake").script(gone("b"), gone("a"))
        await bot.say("fake:a", "x")
        await bot.settle()
        (row,) = bot.outbox("fake:a")

    assert wire(bot) == [("a", "1: x"), ("b", "1: x")]
    assert (row.status, row.errors[-1].code) == ("failed", "RECIPIENT_NOT_FOUND")


async def test_a_chat_that_never_stays_ends_its_send(autojump_clock: MockClock) -> None:
    async with Harness(counting()) as bot:
        bot.channel("fake").script(*[gone(f"b{number}") for number in range(100)])
        await bot.say("fake:a", "x")
        await bot.settle()
        (row,) = bot.outbox("fake:a")

    assert len(wire(bot)) == 17
    assert row.dead_at_us is not None


@pytest.mark.parametrize("to", ["", "two words", " b", 7, None, "a"])
async def test_what_is_no_new_address_moves_nothing(to: str, autojump_clock: MockClock) -> None:
    async with Harness(counting()) as bot:
        bot.channel("fake").script(gone(to))
        await bot.say("fake:a", "x")
        await bot.settle()
        (row,) = bot.outbox("fake:a")

    assert wire(bot) == [("a", "1: x")]
    assert row.dead_at_us is not None


async def test_nothing_is_sent_to_who_cannot_be_reached_until_he_writes(autojump_clock: MockClock) -> None:
    async with Harness(counting(), store="sqlite-inline") as bot:
        bot.channel("fake").script(BLOCKED)
        await bot.say("fake:a", "x")
        await bot.settle()
        refused = await bot.runtime.sender.send("fake", "fake:a", "news", "n1")
        other = await bot.runtime.sender.send("fake", "fake:b", "news", "n2")
        assert (refused.status, refused.code, other.status) == ("dead", Code.RECIPIENT_BLOCKED, "sent")
        assert bot.runtime.status().channels["fake"].unreachable == 1
        assert bot.runtime.counters["unreachable"] == 1

        await bot.crash()
        again = await bot.runtime.sender.send("fake", "fake:a", "news", "n3")
        assert (again.status, again.code) == ("dead", Code.RECIPIENT_BLOCKED)

        await bot.say("fake:a", "back")
        await bot.settle()
        assert bot.runtime.status().channels["fake"].unreachable == 0
        await bot.crash()
        late = await bot.runtime.sender.send("fake", "fake:a", "news", "n4")

    assert late.status == "sent"
    assert wire(bot) == [("a", "1: x"), ("b", "news"), ("a", "2: back"), ("a", "news")]


async def test_rows_that_wait_behind_the_first_are_refused_too(autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        for word in message.payload.text.split():
            ctx.reply(word)

    async with Harness(topology) as bot:
        bot.channel("fake").script(BLOCKED)
        await bot.say("fake:a", "one two three")
        await bot.settle()
        rows = bot.outbox("fake:a")

    assert wire(bot) == [("a", "one")]
    assert [row.errors[-1].code for row in rows] == ["RECIPIENT_BLOCKED"] * 3
    assert [row.attempts for row in rows] == [1, 0, 0]


async def test_after_a_day_it_is_tried_again(autojump_clock: MockClock) -> None:
    async with Harness(counting()) as bot:
        bot.channel("fake").script(BLOCKED, BLOCKED)
        send = bot.runtime.sender.send
        await send("fake", "fake:a", "1", "k1")
        await bot.advance(DAY_S - 1)
        await send("fake", "fake:a", "2", "k2")
        await bot.advance(2)
        await send("fake", "fake:a", "3", "k3")
        await send("fake", "fake:a", "4", "k4")

    assert [text for _, text in wire(bot)] == ["1", "3"]


async def test_a_person_is_obeyed_and_proves_that_it_works(autojump_clock: MockClock) -> None:
    async with Harness(counting()) as bot:
        bot.channel("fake").script(BLOCKED)
        send = bot.runtime.sender.send
        first = await send("fake", "fake:a", "1", "k1")
        await bot.runtime.outbox.requeue(first.outbox_id)
        await bot.settle()
        second = await send("fake", "fake:a", "2", "k2")

    assert second.status == "sent"
    assert [text for _, text in wire(bot)] == ["1", "1", "2"]


@pytest.mark.parametrize(
    "outcome",
    [
        NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT),
        NotSent(Code.NO_ACCESS, Permanence.UNCERTAIN),
        Uncertain("no answer"),
    ],
)
async def test_other_ends_mark_nobody(outcome: NotSent | Uncertain, autojump_clock: MockClock) -> None:
    async with Harness(counting()) as bot:
        bot.channel("fake").script(outcome)
        await bot.runtime.sender.send("fake", "fake:a", "1", "k1")
        assert (await bot.runtime.sender.send("fake", "fake:a", "2", "k2")).status == "sent"


def test_marks_are_bounded_and_the_oldest_goes_first() -> None:
    marks = Unreachable("fake", most=3)
    facts = [fact for key in "abcde" for fact in marks.mark(f"fake:{key}", Code.NO_ACCESS, ord(key))]

    assert [key for key in "abcde" if f"fake:{key}" in marks] == ["c", "d", "e"]
    assert [fact.key for fact in facts if fact.value is None] == [
        "unreachable:fake:fake:a",
        "unreachable:fake:fake:b",
    ]


async def test_a_person_lifts_a_mark(autojump_clock: MockClock) -> None:
    async with Harness(counting(), store="sqlite-inline") as bot:
        bot.channel("fake").script(BLOCKED)
        send, desk = bot.runtime.sender.send, bot.runtime.recipients
        await send("fake", "fake:a", "one", "k1")
        assert desk.unreachable("fake") == {"fake:a": Code.RECIPIENT_BLOCKED}

        await desk.forget_unreachable("fake", "fake:a")
        assert desk.unreachable("fake") == {}
        after = await send("fake", "fake:a", "two", "k2")
        with refused(Code.NOT_FOUND):
            await desk.forget_unreachable("fake", "fake:a")
        with refused(Code.UNKNOWN_CHANNEL):
            desk.unreachable("other")

        bot.channel("fake").script(BLOCKED)
        await send("fake", "fake:a", "three", "k3")
        await desk.forget_unreachable("fake", "fake:a")
        await bot.crash()
        last = await bot.runtime.sender.send("fake", "fake:a", "four", "k4")

    assert (after.status, last.status) == ("sent", "sent")
    assert wire(bot) == [("a", "one"), ("a", "two"), ("a", "three"), ("a", "four")]


async def test_a_person_undoes_a_move(autojump_clock: MockClock) -> None:
    """a and c both became b: what comes from b is a's; once a's move is undone it is c's, and then its own."""
    async with Harness(counting(), store="sqlite-inline") as bot:
        for old in ("a", "c"):
            moved = Inbound(platform_message_id=f"s{old}", address=old, text="(moved)", moved_to="b")
            await bot.channel("fake").read(moved)
        await bot.settle()
        keys: list[list[str | None]] = []
        for left in ("a", "c", ""):
            await bot.say("fake:b", f"after {left}")
            await bot.settle()
            keys.append([one.record.conversation_key for one in bot.runtime.messages.list(limit=1)])
            if left:
                await bot.runtime.recipients.forget_move("fake", left)
        with refused(Code.NOT_FOUND):
            await bot.runtime.recipients.forget_move("fake", "a")
        await bot.crash()
        assert bot.runtime.recipients.moves("fake") == {}
        ended = await bot.runtime.sender.send("fake", "fake:a", "home", "k1")

    assert keys == [["fake:a"], ["fake:c"], ["fake:b"]]
    assert ended.status == "sent"
    assert wire(bot)[-1] == ("a", "home")
