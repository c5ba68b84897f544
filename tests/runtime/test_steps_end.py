"""Steps and early sends at their limits: names, numbers, the time limit, the end of the turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from shardline import BusMessage, Code, Context
from shardline.actors.errors import BusError
from shardline.runtime.defaults import MAX_EFFECTS
from shardline.storage.records import InboxStatus
from shardline.testing import Harness
from tests.kits.one_handler import bot_of, give


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
        assert codes == [Code.STALE_CLAIM] * 2
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
