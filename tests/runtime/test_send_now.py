"""Early sends: out while the handler runs, once for each name, before the turn's replies."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Code, Context, Permanent, RetryPolicy, Topology
from shardline.actors.errors import BusError
from shardline.adapters.base import ChannelCaps, Sent, Uncertain
from shardline.testing import FakeChannel, Harness
from tests.kits.one_handler import bot_of


async def ask_model(text: str) -> str:
    await trio.sleep(3)
    return "yes" if text == "hi" else "no"


def answering_bot() -> Topology:
    topology = Topology()
    topology.topic("order.shipped", retention_s=86_400)

    @topology.on("chat.message", channel="telegram", timeout_s=120, retry=RetryPolicy(max_retries=3))
    async def answer(ctx: Context, message: BusMessage) -> None:
        text = message.payload.text
        if not text:
            raise Permanent("x.no_text", "nothing to answer")
        await ctx.send_now("note", "thinking")
        said = await ctx.step("model", lambda: ask_model(text))
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        ctx.reply(f"{turns + 1}: {said}")
        ctx.publish("order.shipped", {"n": 1}, key=message.conversation_key)

    return topology


async def test_answer(autojump_clock: MockClock) -> None:
    topology = answering_bot()
    async with Harness(topology, channels=["telegram"]) as bot:  # the fake poses as the channel
        bot.channel("telegram").script(Sent("11"), Uncertain("no answer"))  # the note, then the reply
        await bot.say("tg:1", "hi")
        await bot.settle(until_s=10)
        row = bot.outbox("tg:1")[-1]
        assert row.status == "pending"
        assert row.uncertain_since is not None
        await bot.resolve(row.key, "resend")
        await bot.settle()
        assert bot.sent("tg:1") == ["thinking", "1: yes"]


async def test_a_note_goes_out_while_the_handler_runs_before_its_replies_and_survives_a_failure(
    autojump_clock: MockClock,
) -> None:
    heard: list[list[str]] = []
    refs: list[object] = []

    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("last")
        refs.append(await ctx.send_now("note", f"note of run {ctx.claim}"))
        await trio.sleep(1)
        heard.append(bot.sent("fake:a"))
        await ctx.send_now("second", "second")
        if ctx.claim == 1:
            raise ValueError("fails after its notes")

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert heard == [["note of run 1"], ["note of run 1", "second"]]
        assert bot.sent("fake:a") == ["note of run 1", "second", "last"]
        rows = bot.outbox("fake:a")
        assert [row.key.split(".")[:4] for row in rows] == [
            ["1", "0", "now", "note"],
            ["1", "0", "now", "second"],
            ["1", "0", "reply", "0"],
        ]
        assert [row.generation for row in rows] == [0, 0, 0]
        assert refs[0] == refs[1]


async def test_a_requeue_sends_its_notes_again(autojump_clock: MockClock) -> None:
    async def answer(ctx: Context, message: BusMessage) -> None:
        await ctx.send_now("note", f"note {ctx.generation}")
        if ctx.generation == 0:
            raise Permanent("x.dead")

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()
        await bot.requeue(bot.dead()[0].record.id)
        await bot.settle()

        assert bot.sent("fake:a") == ["note 0", "note 1"]


async def test_notes_of_a_busy_conversation_keep_their_place(autojump_clock: MockClock) -> None:
    """Behind what waits already, and before whatever is decided later."""

    async def answer(ctx: Context, message: BusMessage) -> None:
        text = message.payload.text
        await ctx.send_now("note", f"{text}: note")
        await trio.sleep(1)
        ctx.reply(f"{text}: reply")

    slow = FakeChannel("fake", ChannelCaps())
    slow.script(Sent("1"))
    async with Harness(bot_of(answer), channels=[slow]) as bot:
        for text in "abc":
            await bot.say("fake:a", text)
        await bot.settle()

        assert bot.sent("fake:a") == [f"{text}: {kind}" for text in "abc" for kind in ("note", "reply")]


async def test_what_cannot_be_sent_is_refused_and_leaves_the_name_free(autojump_clock: MockClock) -> None:
    async def answer(ctx: Context, message: BusMessage) -> None:
        for text in ("", "  ", "\ud800"):
            with pytest.raises(BusError) as caught:
                await ctx.send_now("note", text)
            assert caught.value.code is Code.INVALID_MESSAGE
        await ctx.send_now("note", "fine", on_uncertain="drop")

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert bot.sent("fake:a") == ["fine"]
