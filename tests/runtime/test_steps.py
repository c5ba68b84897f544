"""Steps and early sends: what a turn stores before it ends, and what a later run of it finds."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal, cast

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from shardline import BusMessage, Code, Context, Permanent, RetryPolicy, Topology
from shardline.actors.errors import BusError
from shardline.adapters.base import ChannelCaps, Sent, Uncertain
from shardline.runtime.defaults import MAX_EFFECTS, STEP_BYTES
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel, Harness

QUICK = RetryPolicy(max_retries=3, base_delay_s=1, jitter="none")

Handler = Callable[[Context, BusMessage], Awaitable[None]]


def bot_of(handler: Handler, *, timeout_s: float = 30) -> Topology:
    topology = Topology()
    topology.on("chat.message", timeout_s=timeout_s, retry=QUICK)(handler)
    return topology


def give(value: object) -> object:
    return value


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


@pytest.mark.parametrize("store", ["memory", "sqlite-inline"])
async def test_a_result_is_given_back_after_failure_crash_and_requeue(
    store: Literal["memory", "sqlite-inline"], autojump_clock: MockClock
) -> None:
    ran: list[int] = []
    keys: set[str] = set()
    crashing = trio.Event()

    async def answer(ctx: Context, message: BusMessage) -> None:
        async def call() -> dict[str, list[int]]:
            await trio.sleep(1)
            ran.append(ctx.claim)
            return {"runs": [ctx.claim]}

        keys.add(ctx.step_key("model"))
        said = await ctx.step("model", call)
        assert said == {"runs": [1]}
        said["runs"].append(7)
        if ctx.claim == 1:
            raise ValueError("after the step")
        if ctx.claim == 2:
            crashing.set()
            await trio.sleep_forever()
        if ctx.generation == 0:
            raise Permanent("x.dead")
        ctx.reply("done")

    async with Harness(bot_of(answer), store=store) as bot:
        await bot.say("fake:a", "hi")
        await crashing.wait()
        await bot.crash()
        await bot.settle()
        (dead,) = bot.dead()
        await bot.requeue(dead.record.id)
        await bot.settle()

        assert ran == [1]
        assert bot.sent("fake:a") == ["done"]
        (row,) = bot.runtime.messages.list()
        assert (row.record.status, row.record.claim, row.record.generation) == (InboxStatus.DONE, 4, 1)
        assert len(keys) == 1


async def test_a_step_that_raised_runs_again_with_the_turn_and_in_it(autojump_clock: MockClock) -> None:
    calls: list[str] = []

    async def answer(ctx: Context, message: BusMessage) -> None:
        def call() -> int:
            calls.append(f"{ctx.claim}")
            if len(calls) < 4:
                raise OSError("no")
            return len(calls)

        for _ in range(2):
            try:
                got = await ctx.step("model", call)
                break
            except OSError:
                continue
        else:
            raise LookupError
        ctx.reply(f"{got}")

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert calls == ["1", "1", "2", "2"]
        assert bot.sent("fake:a") == ["4"]


class Mood(enum.StrEnum):
    GOOD = "good"


async def test_the_first_run_sees_what_a_later_one_would(autojump_clock: MockClock) -> None:
    seen: list[tuple[object, type]] = []
    results: dict[str, object] = {
        "enum": Mood.GOOD,
        "nothing": None,
        "mixed": {"a": [1, 2.5, b"x", True], "b": {}},
    }

    async def answer(ctx: Context, message: BusMessage) -> None:
        for name, result in results.items():
            got = await ctx.step(name, partial(give, result))
            assert got is not result or result is None
            seen.append((got, type(got)))
        if ctx.claim == 1:
            raise ValueError("again")

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        half = len(results)
        assert seen[:half] == seen[half:]
        assert [got for got, _ in seen[:half]] == list(results.values())
        assert seen[0][1] is str


@pytest.mark.parametrize(
    ("result", "code", "path"),
    [
        ({"a": [1, {2}]}, Code.INVALID_MESSAGE, "$.a[1]"),
        ((1, 2), Code.INVALID_MESSAGE, "$"),
        (float("nan"), Code.INVALID_MESSAGE, "$"),
        ({"a": 2**64}, Code.INVALID_MESSAGE, "$.a"),
        ("\ud800", Code.INVALID_MESSAGE, "$"),
        (b"x" * STEP_BYTES, Code.TOO_LARGE, None),
    ],
)
async def test_a_result_that_cannot_be_stored_is_refused_with_its_path(
    result: object, code: Code, path: str | None, autojump_clock: MockClock
) -> None:
    refusals: list[BusError] = []

    async def answer(ctx: Context, message: BusMessage) -> None:
        try:
            await ctx.step("model", lambda: result)
        except BusError as error:
            refusals.append(error)
            raise

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        (error,) = refusals
        assert error.code is code
        assert error.context.get("path") == path
        assert [row.record.errors[-1].code for row in bot.dead()] == [code]


async def test_the_longest_result_is_stored(autojump_clock: MockClock) -> None:
    async def answer(ctx: Context, message: BusMessage) -> None:
        got = await ctx.step("model", lambda: b"x" * (STEP_BYTES - 5))
        ctx.reply(f"{len(got)}")

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert bot.sent("fake:a") == [str(STEP_BYTES - 5)]


async def test_steps_of_one_turn_run_side_by_side(autojump_clock: MockClock) -> None:
    ran: list[str] = []

    async def answer(ctx: Context, message: BusMessage) -> None:
        results: dict[str, str] = {}

        async def one(name: str) -> None:
            async def call() -> str:
                await trio.sleep(10)
                ran.append(name)
                return name.upper()

            results[name] = await ctx.step(name, call)

        async with trio.open_nursery() as nursery:
            for name in "abcde":
                nursery.start_soon(one, name)
        if ctx.claim == 1:
            raise ValueError("again")
        ctx.reply("".join(results[name] for name in sorted(results)))

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        start_s = trio.current_time()
        await bot.settle()

        assert trio.current_time() - start_s < 15
        assert sorted(ran) == list("abcde")
        assert bot.sent("fake:a") == ["ABCDE"]


async def test_a_name_is_taken_once_in_a_turn(autojump_clock: MockClock) -> None:
    codes: list[tuple[str, Code]] = []

    async def answer(ctx: Context, message: BusMessage) -> None:
        async def refused(what: str, call: Callable[[], Awaitable[object]]) -> None:
            with pytest.raises(BusError) as caught:
                await call()
            codes.append((what, caught.value.code))

        async def slow() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ctx.step, "slow", partial(trio.sleep, 1))
                await trio.testing.wait_all_tasks_blocked()
                await refused("while it runs", lambda: ctx.step("slow", lambda: 1))

        await ctx.step("note", lambda: 1)
        await ctx.send_now("note", "a note")
        await refused("step", lambda: ctx.step("note", lambda: 1))
        await refused("send_now", lambda: ctx.send_now("note", "a note"))
        await slow()
        for name in ("", " x", "x" * 129, "\ud800"):
            await refused("name", partial(ctx.send_now, name, "x"))
            await refused("name", partial(ctx.step, name, partial(give, 1)))
        with pytest.raises(BusError):
            ctx.step_key("")

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert {code for _, code in codes} == {Code.INVALID_MESSAGE}
        assert len(codes) == 11
        assert bot.sent("fake:a") == ["a note"]
        assert bot.dead() == []


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


async def test_a_turn_has_at_most_a_thousand_of_them(autojump_clock: MockClock) -> None:
    refused: list[Code] = []

    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("one")
        for number in range(MAX_EFFECTS - 2):
            await ctx.step(f"s{number}", lambda: None)
        await ctx.send_now("last", "last")
        for call in (
            lambda: ctx.step("more", lambda: None),
            lambda: ctx.send_now("more", "more"),
        ):
            with pytest.raises(BusError) as caught:
                await call()
            refused.append(caught.value.code)
        with pytest.raises(BusError) as caught:
            ctx.reply("more")
        refused.append(caught.value.code)

    async with Harness(bot_of(answer, timeout_s=300)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert refused == [Code.TOO_LARGE] * 3
        assert bot.sent("fake:a") == ["last", "one"]


async def test_after_the_turn_every_call_is_stale(autojump_clock: MockClock) -> None:
    kept: list[Context] = []
    ran: list[str] = []

    async def answer(ctx: Context, message: BusMessage) -> None:
        kept.append(ctx)

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()
        (ctx,) = kept
        for call in (
            lambda: ctx.step("late", lambda: ran.append("late")),
            lambda: ctx.send_now("late", "late"),
        ):
            with pytest.raises(BusError) as caught:
                await call()
            assert caught.value.code is Code.STALE_CLAIM
        with pytest.raises(BusError) as caught:
            ctx.step_key("late")

        assert caught.value.code is Code.STALE_CLAIM
        assert ran == []
        assert bot.outbox("fake:a") == []


async def test_a_step_that_outlives_its_turn_stores_nothing(autojump_clock: MockClock) -> None:
    codes: list[Code] = []
    async with trio.open_nursery() as outside:

        async def stray(ctx: Context) -> None:
            with pytest.raises(BusError) as caught:
                await ctx.step("late", partial(trio.sleep, 5))
            codes.append(caught.value.code)

        async def answer(ctx: Context, message: BusMessage) -> None:
            outside.start_soon(stray, ctx)
            await trio.sleep(1)

        async with Harness(bot_of(answer)) as bot:
            await bot.say("fake:a", "hi")
            await bot.advance(10)

            assert codes == [Code.STALE_CLAIM]
            assert bot.runtime.messages.list()[0].record.status is InboxStatus.DONE


async def test_once_the_time_is_over_nothing_new_is_stored_but_what_was_paid_for_is_kept(
    autojump_clock: MockClock,
) -> None:
    """The result of a call that cannot be cut off comes late: the next run has it, and the note was not sent."""
    ran: list[int] = []
    codes: list[Code] = []

    async def answer(ctx: Context, message: BusMessage) -> None:
        async def call() -> str:
            ran.append(ctx.claim)
            with trio.CancelScope(shield=True):
                await trio.sleep(20)
            return "late"

        try:
            said = await ctx.step("model", call)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                for use in (
                    lambda: ctx.send_now("sorry", "no time"),
                    lambda: ctx.step("other", lambda: ran.append(99)),
                ):
                    with pytest.raises(BusError) as caught:
                        await use()
                    codes.append(caught.value.code)
            raise
        ctx.reply(said)

    async with Harness(bot_of(answer, timeout_s=10)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert ran == [1]
        assert codes == [Code.HANDLER_TIMEOUT] * 2
        assert bot.sent("fake:a") == ["late"]
        (row,) = bot.runtime.messages.list()
        assert [error.code for error in row.record.errors] == [Code.HANDLER_TIMEOUT]


async def test_a_step_cut_off_in_its_turn_is_looked_up_when_it_is_asked_for_again(
    autojump_clock: MockClock,
) -> None:
    ran: list[str] = []

    async def answer(ctx: Context, message: BusMessage) -> None:
        def call() -> str:
            ran.append("x")
            scope.cancel()
            return "once"

        with trio.CancelScope() as scope:
            await ctx.step("model", call)
        assert scope.cancelled_caught
        with trio.CancelScope() as early:
            early.cancel()
            await ctx.send_now("note", "never")
        assert early.cancelled_caught
        await ctx.send_now("note", "note")
        ctx.reply(await ctx.step("model", call))

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert ran == ["x"]
        assert bot.sent("fake:a") == ["note", "once"]


async def test_what_is_no_function_is_refused(autojump_clock: MockClock) -> None:
    async def answer(ctx: Context, message: BusMessage) -> None:
        await ctx.step("model", cast("Callable[[], int]", "no function"))

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert [row.record.errors[-1].code for row in bot.dead()] == [Code.INVALID_MESSAGE]
