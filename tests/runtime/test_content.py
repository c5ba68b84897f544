"""Sending more than text: what is refused at the call, what reaches the adapter, what an edit is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Permanence, SendRef, Topology
from shardline.adapters.base import ChannelCaps, NotSent, Sent, Uncertain
from shardline.content import Action, Content, Delete, Edit, Media, Text
from shardline.testing import FakeChannel, Harness

KEY = "fake:1"
ALL = ChannelCaps(max_text=10, contents=("text", "media", "edit", "delete", "action"), max_file_bytes=4)


def doing(turn: Callable[[Context], None]) -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        turn(ctx)

    return topology


async def refusal_of(content: Content, caps: ChannelCaps = ALL) -> BusError:
    async with Harness(
        doing(lambda ctx: void(ctx.reply(content))), channels=[FakeChannel("fake", caps)]
    ) as bot:
        await bot.say(KEY, "go")
        await bot.settle()
        (dead,) = bot.dead()
        assert bot.outbox(KEY) == []
    (error,) = dead.record.errors
    return BusError(Code(error.code), error.text)


def void(_: object) -> None:
    """A turn returns nothing."""


async def test_each_content_reaches_the_adapter_as_it_was_decided(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"1234")
    said: list[Content] = [
        Text("hi"),
        Media("photo", file_id="F1", caption="see", name="x.png"),
        Media("document", path=str(file)),
        Action("pin", {"silent": True, "ids": [1, 2]}),
    ]

    def turn(ctx: Context) -> None:
        for content in said:
            ctx.reply(content)

    channel = FakeChannel("fake", ALL)
    async with Harness(doing(turn), channels=[channel], store="sqlite-inline") as bot:
        await bot.say(KEY, "go")
        await bot.settle()

    assert [out.content for out in channel.delivered] == said
    assert [out.text for out in channel.delivered] == ["hi", "see", "", ""]


async def test_an_edit_and_a_deletion_name_the_platforms_message(autojump_clock: MockClock) -> None:
    def turn(ctx: Context) -> None:
        first = ctx.reply("one")
        second = ctx.reply("two")
        ctx.reply(Edit(first, "ONE"))
        ctx.reply(Delete(second))

    channel = FakeChannel("fake", ALL)
    channel.script(Sent("p1"), Sent("p2"))
    async with Harness(doing(turn), channels=[channel], store="sqlite-inline") as bot:
        await bot.say(KEY, "go")
        await bot.settle()

    assert [(out.text, out.target) for out in channel.delivered] == [
        ("one", None),
        ("two", None),
        ("ONE", "p1"),
        ("", "p2"),
    ]


GONE = NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT)


@pytest.mark.parametrize("first", [GONE, Uncertain("?"), Sent(None)], ids=["dead", "uncertain", "no id"])
async def test_an_edit_of_what_has_no_message_is_dead(
    autojump_clock: MockClock, first: Sent | NotSent | Uncertain
) -> None:
    def turn(ctx: Context) -> None:
        ctx.reply(Edit(ctx.reply("one"), "ONE"))
        ctx.reply("next")

    channel = FakeChannel("fake", ALL)
    channel.script(first)
    async with Harness(doing(turn), channels=[channel]) as bot:
        await bot.say(KEY, "go")
        await bot.settle()
        edit = bot.outbox(KEY)[1]

    assert [out.text for out in channel.attempts] == ["one", "next"]
    assert (edit.dead_at_us is not None, edit.errors[-1].code, edit.attempts) == (True, Code.NOT_FOUND, 0)


@pytest.mark.parametrize("ref", [SendRef("fake", "nobody"), None], ids=["unknown", "of another conversation"])
async def test_an_edit_of_a_foreign_send_is_dead(autojump_clock: MockClock, ref: SendRef | None) -> None:
    def turn(ctx: Context) -> None:
        other = ctx.send("fake", "fake:2", "for another", idempotency_key="o")
        ctx.reply(Edit(ref or other, "mine now"))

    channel = FakeChannel("fake", ALL)
    async with Harness(doing(turn), channels=[channel]) as bot:
        await bot.say(KEY, "go")
        await bot.settle()
        (edit,) = bot.outbox(KEY)

    assert edit.errors[-1].code == Code.NOT_FOUND
    assert all(out.text != "mine now" for out in channel.attempts)


async def test_a_later_turn_edits_what_an_earlier_one_sent(autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        known = ctx.state.get("ref")
        if isinstance(known, str):
            ctx.reply(Edit(SendRef("fake", known), message.payload.text))
        else:
            ctx.state["ref"] = ctx.reply(message.payload.text).idempotency_key

    channel = FakeChannel("fake", ALL)
    async with Harness(topology, channels=[channel], store="sqlite-inline") as bot:
        await bot.say(KEY, "a")
        await bot.settle()
        await bot.crash()
        await bot.say(KEY, "b")
        await bot.settle()

    assert [(out.text, out.target) for out in channel.delivered] == [("a", None), ("b", "1")]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (Media("photo", file_id="F", path="/x"), Code.INVALID_MESSAGE),
        (Media("photo"), Code.INVALID_MESSAGE),
        (Media("poem", file_id="F"), Code.INVALID_MESSAGE),  # type: ignore[arg-type]  # that is the test
        (Media("photo", path="/nowhere/at/all"), Code.INVALID_MESSAGE),
        (Media("photo", path="/dev/null"), Code.INVALID_MESSAGE),
        (Media("photo", file_id="F", caption="a" * 11), Code.TOO_LARGE),
        (Media("photo", file_id="F", caption="\ud800"), Code.INVALID_MESSAGE),
        (Edit(SendRef("fake", "k"), " \n"), Code.INVALID_MESSAGE),
        (Edit(SendRef("fake", "k"), "a" * 11), Code.TOO_LARGE),
        (Edit(SendRef("other", "k"), "a"), Code.INVALID_MESSAGE),
        (Delete("k"), Code.INVALID_MESSAGE),  # type: ignore[arg-type]  # that is the test
        (Action(""), Code.INVALID_MESSAGE),
        (Action("pin", {"x": float("nan")}), Code.INVALID_MESSAGE),
        (Text("  \n"), Code.INVALID_MESSAGE),
        (7, Code.INVALID_MESSAGE),
    ],
)
async def test_what_cannot_be_sent_is_refused_at_the_call(
    autojump_clock: MockClock, content: Content, code: Code
) -> None:
    assert (await refusal_of(content)).code is code


async def test_a_file_that_is_too_large_or_a_link_is_refused(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    file, link = tmp_path / "a", tmp_path / "l"
    file.write_bytes(b"12345")
    link.symlink_to(file)

    assert (await refusal_of(Media("document", path=str(file)))).code is Code.TOO_LARGE
    assert (await refusal_of(Media("document", path=str(link)))).code is Code.INVALID_MESSAGE


@pytest.mark.parametrize(
    "content",
    [
        Media("photo", file_id="F"),
        Edit(SendRef("fake", "k"), "a"),
        Delete(SendRef("fake", "k")),
        Action("pin"),
    ],
)
async def test_a_channel_that_takes_texts_alone_refuses_the_rest(
    autojump_clock: MockClock, content: Content
) -> None:
    error = await refusal_of(content, ChannelCaps())

    assert error.code is Code.INVALID_MESSAGE
    assert "takes no" in str(error)


async def test_one_key_sends_one_content(autojump_clock: MockClock) -> None:
    files = iter("AAB")

    def turn(ctx: Context) -> None:
        ctx.send("fake", KEY, Media("photo", file_id=next(files)), idempotency_key="k")

    channel = FakeChannel("fake", ALL)
    async with Harness(doing(turn), channels=[channel]) as bot:
        for _ in range(3):
            await bot.say(KEY, "go")
            await bot.settle()
        (dead,) = bot.dead()

    assert len(channel.attempts) == 1
    assert dead.record.errors[-1].code == Code.IDENTITY_MISMATCH


async def test_send_now_takes_a_content_too(autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ref = await ctx.send_now("note", "thinking")
        ctx.reply(Edit(ref, "done"))

    channel = FakeChannel("fake", ALL)
    async with Harness(topology, channels=[channel]) as bot:
        await bot.say(KEY, "go")
        await bot.settle()

    assert [(out.text, out.target) for out in channel.delivered] == [("thinking", None), ("done", "1")]


async def test_contents_for_another_home_arrive_whole(autojump_clock: MockClock) -> None:
    media = Media("voice", file_id="V")
    channel = FakeChannel("fake", ALL)
    turn = doing(lambda ctx: void(ctx.send("fake", "fake:other", media)))
    async with Harness(turn, channels=[channel]) as bot:
        await bot.say(KEY, "go")
        await bot.settle()

    assert [out.content for out in channel.delivered] == [media]
