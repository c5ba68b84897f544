"""What handlers raise and hand over that nobody expects: it fails their own turn, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import trio

from shardline import BusMessage, Code, Context, Permanent, RetryPolicy, Topology
from shardline.actors.errors import BusError, error_code_of, own_code_of, permanence_of
from shardline.actors.leaves import leaves
from shardline.storage.records import InboxStatus
from shardline.testing import Harness, run

DEEP = 20_000


def nested(error: Exception, depth: int = DEEP) -> Exception:
    for _ in range(depth):
        error = ExceptionGroup("one more", [error])
    return error


async def own_scope() -> None:
    """A cancellation whose scope has ended."""
    kept: BaseException | None = None
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep(1)
        except trio.Cancelled as cancelled:
            kept = cancelled
    assert kept is not None
    raise kept


async def own_scope_in_a_group() -> None:
    try:
        await own_scope()
    except trio.Cancelled as cancelled:
        raise BaseExceptionGroup("both", [cancelled, ValueError("beside it")]) from None


async def asyncio_cancelled() -> None:
    """As it comes out of `asyncio.run` in a thread."""
    raise asyncio.CancelledError


class OfNoKind(BaseException):
    """Of no kind that anybody knows."""


async def of_no_kind() -> None:
    raise OfNoKind


async def deep_group() -> None:
    raise nested(ValueError("deep"))


@pytest.mark.parametrize("fail", [own_scope, own_scope_in_a_group, asyncio_cancelled, of_no_kind, deep_group])
def test_what_nobody_expects_fails_its_own_turn_and_the_next_message_goes_on(
    fail: Callable[[], Awaitable[None]],
) -> None:
    async def main() -> None:
        topology = Topology()

        @topology.on("chat.message", retry=RetryPolicy(max_retries=1, base_delay_s=0.1))
        async def answer(ctx: Context, message: BusMessage) -> None:
            if message.payload.text == "bad":
                await fail()
            ctx.reply(message.payload.text)

        async with Harness(topology) as bot:
            await bot.say("fake:1", "bad")
            await bot.say("fake:1", "good")
            await bot.say("fake:2", "other")
            await bot.settle()

            assert (bot.sent("fake:1"), bot.sent("fake:2")) == (["good"], ["other"])
            [dead] = bot.runtime.messages.list(status=InboxStatus.DEAD, limit=10)
            assert (dead.record.failures, dead.record.errors[-1].code) == (2, "HANDLER_FAILED")

    run(main)


def test_a_code_is_found_however_deep_a_group_is() -> None:
    deep = nested(ExceptionGroup("both", [ValueError("one"), Permanent("x.deep")]))

    assert error_code_of(deep) is Code.HANDLER_FAILED
    assert own_code_of(deep) == "x.deep"
    assert str(permanence_of(deep)) == "permanent"
    assert [type(leaf) for leaf in leaves(deep)] == [ValueError, Permanent]


def test_the_cause_of_a_group_without_a_code_speaks_for_it_and_a_permanent_one_goes_first() -> None:
    group = ExceptionGroup("none", [ValueError("one")])
    group.__cause__ = BusError(Code.NOT_FOUND, "gone")
    outer = ExceptionGroup("outer", [BusError(Code.QUEUE_FULL, "full"), group])

    assert error_code_of(group) is Code.NOT_FOUND
    assert error_code_of(outer) is Code.NOT_FOUND


@pytest.mark.parametrize(
    ("topic", "headers", "code"),
    [
        ("chat.message", {5: "x"}, "INVALID_MESSAGE"),
        ("chat.message", {"a": "x"}, "INVALID_MESSAGE"),
        ("order.shipped", {5: "x"}, "INVALID_MESSAGE"),
        ("order.shipped", {"a": 5}, "INVALID_MESSAGE"),
        ("order.shipped", {"a": "x" * 3_000_000}, "TOO_LARGE"),
    ],
)
def test_headers_that_no_event_may_have_end_the_turn_that_sets_them_and_no_timer_is_set(
    topic: str, headers: dict[str, str], code: str
) -> None:
    async def main() -> None:
        topology = Topology()
        topology.topic("order.shipped")

        @topology.on("chat.message")
        async def answer(ctx: Context, message: BusMessage) -> None:
            if message.payload.text == "bad":
                ctx.schedule("later", after_s=5, topic=topic, headers=headers)
            ctx.reply(message.payload.text)

        async with Harness(topology) as bot:
            await bot.say("fake:1", "bad")
            await bot.say("fake:1", "good")
            await bot.settle()
            await bot.advance(10)
            await bot.settle()

            assert bot.sent("fake:1") == ["good"]
            [dead] = bot.runtime.messages.list(status=InboxStatus.DEAD, limit=10)
            assert dead.record.errors[-1].code == code
            assert bot.runtime.timers.list(limit=10) == []

    run(main)
