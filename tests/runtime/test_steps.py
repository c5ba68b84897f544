"""Steps: what is kept of a call, and what a later run of the turn finds."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import Literal, cast

import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Code, Context, Permanent
from shardline.actors.errors import BusError
from shardline.runtime.defaults import STEP_BYTES
from shardline.storage.records import InboxStatus
from shardline.testing import Harness
from tests.kits.one_handler import bot_of, give


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


async def test_what_is_no_function_is_refused(autojump_clock: MockClock) -> None:
    async def answer(ctx: Context, message: BusMessage) -> None:
        await ctx.step("model", cast("Callable[[], int]", "no function"))

    async with Harness(bot_of(answer)) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert [row.record.errors[-1].code for row in bot.dead()] == [Code.INVALID_MESSAGE]
