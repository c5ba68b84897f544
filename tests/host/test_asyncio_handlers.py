"""Handlers that are asyncio coroutines: their verbs, their failures, their time, on the program's loop."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from shardline import BusError, BusMessage, Code, Context, Handled, Permanent, RetryLater, Topology
from shardline.asyncio import AsyncioContext, asyncio_handler, runtime
from shardline.storage.records import InboxRecord, InboxStatus
from shardline.testing import FakeChannel
from tests.kits.bots import new_message
from tests.kits.hosts import Handler, code_of_call, host_bot, in_asyncio

BotOf = Callable[[Handler], Topology]


def handle_one(
    handler: Handler, folder: Path, *, bot_of: BotOf = host_bot
) -> tuple[Handled, InboxRecord, list[str]]:
    """Let a bot of this handler take one message; what became of it, its row, and what was sent."""
    channel = FakeChannel()

    async def main() -> tuple[Handled, InboxRecord, list[str]]:
        async with runtime(bot_of(handler), store=folder / "bot.db", adapters=[channel]) as bot:
            handled = await bot.publish(new_message("hi"), wait="handled")
            await bot.wait_quiet()
            row = bot.native.messages.list()[0].record
            return handled, row, [out.text for out in channel.delivered]

    return in_asyncio(main)


async def say_waited() -> str:
    return await asyncio.sleep(0.001, "waited")


def test_every_verb_of_the_context_works_from_asyncio(tmp_path: Path) -> None:
    async def answer(ctx: AsyncioContext, message: BusMessage) -> None:
        if message.payload.text == "later":
            ctx.reply("it is later")
            return
        assert (ctx.claim, ctx.failures, ctx.generation) == (1, 0, 0)
        assert 0 < ctx.deadline_s - asyncio.get_running_loop().time() <= 30
        ctx.log.debug("turn.seen")
        await ctx.send_now("note", "thinking")
        waited = await ctx.step("wait", say_waited)
        plain = await ctx.step("plain", lambda: 2)
        ctx.state["n"] = plain
        ctx.schedule("later", after_s=0)
        assert not ctx.cancel(ctx.schedule("never", after_s=60)[:-1] + "9")
        assert ctx.step_key("wait") == ctx.step_key("wait")
        async with asyncio.timeout_at(ctx.deadline_s), asyncio.TaskGroup() as side_by_side:
            for name in "ab":
                side_by_side.create_task(ctx.step(name, lambda: asyncio.sleep(0, 1)))
        ctx.reply(f"{waited} {plain}")

    handled, row, sent = handle_one(answer, tmp_path)
    assert handled.status == "done"
    assert row.status is InboxStatus.DONE
    assert sent[:2] == ["thinking", "waited 2"]


def test_a_step_is_kept_for_the_next_run(tmp_path: Path) -> None:
    calls: list[int] = []

    async def call() -> int:
        await asyncio.sleep(0)
        calls.append(1)
        return len(calls)

    async def answer(ctx: AsyncioContext, message: BusMessage) -> None:
        said = await ctx.step("model", call)
        if ctx.failures == 0:
            raise ValueError("once")
        ctx.reply(f"{said}")

    _, row, sent = handle_one(answer, tmp_path)
    assert (sent, calls, row.failures) == (["1"], [1], 1)


async def fails(ctx: AsyncioContext, message: BusMessage) -> None:
    raise ValueError("mine")


class OfNoKindError(BaseException):
    """As a hostile handler raises it."""


async def fails_in_no_known_way(ctx: AsyncioContext, message: BusMessage) -> None:
    raise OfNoKindError("of no kind")


async def fails_for_good(ctx: AsyncioContext, message: BusMessage) -> None:
    raise Permanent("x.no", "never")


async def fails_in_a_step(ctx: AsyncioContext, message: BusMessage) -> None:
    async def call() -> None:
        await asyncio.sleep(0)
        raise Permanent("x.step")

    await ctx.step("call", call)


async def fails_in_a_group(ctx: AsyncioContext, message: BusMessage) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(fails(ctx, message))
        group.create_task(fails_for_good(ctx, message))


async def cancels_itself(ctx: AsyncioContext, message: BusMessage) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(10)


async def raises_a_cancellation(ctx: AsyncioContext, message: BusMessage) -> None:
    raise asyncio.CancelledError


async def times_out(ctx: AsyncioContext, message: BusMessage) -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(10)


async def breaks_a_rule(ctx: AsyncioContext, message: BusMessage) -> None:
    ctx.reply("   ")


async def runs_a_nested_loop(ctx: AsyncioContext, message: BusMessage) -> None:
    work = asyncio.sleep(0)
    try:
        asyncio.run(work)
    finally:
        work.close()


@pytest.mark.parametrize(
    ("handler", "code", "own_code", "failures", "says"),
    [
        (fails, Code.HANDLER_FAILED, None, 2, "ValueError: mine"),
        (fails_in_no_known_way, Code.HANDLER_FAILED, None, 2, "OfNoKindError: of no kind"),
        (fails_for_good, Code.HANDLER_FAILED, "x.no", 1, "never"),
        (fails_in_a_step, Code.HANDLER_FAILED, "x.step", 1, "x.step"),
        (fails_in_a_group, Code.HANDLER_FAILED, "x.no", 1, "ValueError: mine"),
        (cancels_itself, Code.HANDLER_FAILED, None, 2, "cancelled from outside"),
        (raises_a_cancellation, Code.HANDLER_FAILED, None, 2, "cancelled from outside"),
        (times_out, Code.HANDLER_FAILED, None, 2, "TimeoutError"),
        (breaks_a_rule, Code.INVALID_MESSAGE, None, 1, "text"),
        (runs_a_nested_loop, Code.HANDLER_FAILED, None, 2, "running event loop"),
    ],
)
def test_a_failure_is_typed_as_under_trio(
    handler: Handler, code: Code, own_code: str | None, failures: int, says: str, tmp_path: Path
) -> None:
    handled, row, sent = handle_one(handler, tmp_path, bot_of=lambda one: host_bot(one, max_retries=1))
    assert (handled.status, handled.code, handled.own_code) == ("dead", code, own_code)
    assert len(row.errors) == failures
    assert says in handled.text
    assert sent == []


def test_retry_later_is_heard(tmp_path: Path) -> None:
    async def answer(ctx: AsyncioContext, message: BusMessage) -> None:
        if ctx.failures == 0:
            raise RetryLater(0.06)
        ctx.reply("now")

    assert handle_one(answer, tmp_path)[2] == ["now"]


def test_the_time_limit_cancels_the_task_and_waits_for_its_end(tmp_path: Path) -> None:
    seen: list[str] = []

    async def slow(ctx: AsyncioContext, message: BusMessage) -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0.01)
            assert await code_of_call(ctx.send_now("late", "late")) is Code.STALE_CLAIM
            with pytest.raises(BusError):
                ctx.reply("late")
            seen.append("ended")
            raise

    handled, row, sent = handle_one(
        slow, tmp_path, bot_of=lambda one: host_bot(one, timeout_s=2, max_retries=0)
    )
    assert (handled.code, sent) == (Code.HANDLER_TIMEOUT, [])
    assert seen == ["cancelled", "ended"]
    assert row.claim == 1


def test_the_time_limit_reaches_what_a_step_runs(tmp_path: Path) -> None:
    seen: list[str] = []

    async def call() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            seen.append("cancelled")

    async def slow(ctx: AsyncioContext, message: BusMessage) -> None:
        await ctx.step("call", call)

    handled, *_ = handle_one(slow, tmp_path, bot_of=lambda one: host_bot(one, timeout_s=2, max_retries=0))
    assert (handled.code, seen) == (Code.HANDLER_TIMEOUT, ["cancelled"])


def test_a_turn_that_would_wait_for_itself_is_told_so(tmp_path: Path) -> None:
    async def main() -> list[Code | None]:
        codes: list[Code | None] = []

        async def answer(ctx: AsyncioContext, message: BusMessage) -> None:
            codes.append(await code_of_call(bot.publish(new_message("again"), wait="handled")))
            codes.append(await code_of_call(bot.close()))
            bot.request_stop()

        async with runtime(host_bot(answer), store=tmp_path / "bot.db", adapters=[FakeChannel()]) as bot:
            await bot.publish(new_message("hi"), wait="handled")
            await bot.serve()
        return codes

    assert in_asyncio(main) == [Code.WOULD_DEADLOCK, Code.WOULD_DEADLOCK]


def test_context_variables_of_the_program_are_seen_and_stay_its_own(tmp_path: Path) -> None:
    who = contextvars.ContextVar[str]("who")
    seen: list[str] = []

    async def answer(ctx: AsyncioContext, message: BusMessage) -> None:
        seen.append(who.get())
        who.set("the handler")
        await ctx.step("look", lambda: seen.append(who.get()))

    async def main() -> None:
        who.set("the program")
        async with runtime(host_bot(answer), store=tmp_path / "bot.db", adapters=[FakeChannel()]) as bot:
            for key in "ab":
                await bot.publish(new_message("hi", key=f"fake:{key}"), wait="handled")
        assert who.get() == "the program"

    in_asyncio(main)
    assert seen == ["the program", "the handler"] * 2


def test_a_loop_with_tasks_that_start_at_once_keeps_the_sides_apart(tmp_path: Path) -> None:
    """As `asyncio.eager_task_factory` does: a task that runs before `create_task` returns."""

    class Eager(asyncio.Task[object]):
        def __init__(self, coro: object, **options: object) -> None:
            started.append(trio.lowlevel.in_trio_task())
            super().__init__(coro, **options)  # type: ignore[arg-type]

    started: list[bool] = []

    async def answer(ctx: AsyncioContext, message: BusMessage) -> None:
        await ctx.step("x", say_waited)
        ctx.reply("fine")

    def bot_of(handler: Handler) -> Topology:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, coro, **options: Eager(coro, loop=loop, **options))  # type: ignore[arg-type]
        return host_bot(handler)

    assert handle_one(answer, tmp_path, bot_of=bot_of)[2] == ["fine"]
    assert started
    assert not any(started)


def test_what_is_no_coroutine_function_is_refused() -> None:
    def plain(ctx: AsyncioContext, message: BusMessage) -> None: ...

    with pytest.raises(BusError) as caught:
        asyncio_handler(plain)  # type: ignore[arg-type]
    assert caught.value.code is Code.INVALID_MESSAGE


def test_a_plain_handler_that_awaits_asyncio_is_dead_with_what_to_do(tmp_path: Path) -> None:
    async def main() -> Handled:
        topology = Topology()

        @topology.on("chat.message")
        async def answer(ctx: Context, message: BusMessage) -> None:
            await asyncio.sleep(0.01)

        async with runtime(topology, store=tmp_path / "bot.db", adapters=[FakeChannel()]) as bot:
            return await bot.publish(new_message("hi"), wait="handled")

    handled = in_asyncio(main)
    assert (handled.status, handled.code) == ("dead", Code.WRONG_LOOP)
    assert "asyncio_handler" in handled.text
