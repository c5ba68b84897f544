"""What a failed turn means: RetryLater, Permanent, groups of both, and what stays on the row."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Literal

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import (
    BusError,
    BusMessage,
    Code,
    Context,
    Permanent,
    RetryLater,
    RetryPolicy,
    Runtime,
    Topology,
)
from shardline.actors.errors import error_code_of
from shardline.runtime.defaults import MAX_EFFECTS, MAX_RETRY_LATER_S
from shardline.runtime.inbox_rules import Dead, Fail
from shardline.runtime.turn_failure import failure_event, is_failure_of_topic
from shardline.storage.memory import open_memory
from shardline.storage.records import InboxRecord, InboxStatus
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import texts_to, until_quiet

NO_JITTER = RetryPolicy(max_retries=3, base_delay_s=1, jitter="none")
RUNNING = InboxRecord(
    id=1, shard=0, seq=1, topic="chat.message", partition=0, offset=0, channel="fake",
    conversation_key="fake:a", status=InboxStatus.RUNNING, claim=1,
)  # fmt: skip


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def happened(error: Exception, before: Exception) -> Exception:
    error.__context__ = before
    return error


def group(*errors: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("several", errors)


def event_of(error: BaseException, *, failures: int = 0) -> Fail | Dead:
    return failure_event(error, attrs.evolve(RUNNING, failures=failures), NO_JITTER, now_us=1_000, unit=0.5)


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        (ValueError("no wish"), 1),
        (RetryLater(7), 7),
        (RetryLater(0.2), 0.2),
        (RetryLater(0), 0.05),
        (RetryLater(-3), 0.05),
        (RetryLater(10**9), MAX_RETRY_LATER_S),
        (caused(ValueError("why"), RetryLater(7)), 7),
        (happened(ValueError("in the except block"), RetryLater(7)), 7),
        (caused(RetryLater(7), BusError(Code.NOT_FOUND, "what made it wait")), 7),
        (group(ValueError(), RetryLater(3), RetryLater(7)), 7),
        (group(RetryLater(9), group(caused(ValueError(), RetryLater(12)))), 12),
        (caused(RetryLater(3), RetryLater(7)), 7),
        (group(BusError(Code.STORE_BUSY, ""), RetryLater(7)), 7),
    ],
)
def test_how_long_it_waits(error: BaseException, wait_s: float) -> None:
    event = event_of(error)

    assert isinstance(event, Fail)
    assert (event.wait_us, event.due_us) == (round(wait_s * 1e6), 1_000 + round(wait_s * 1e6))


@pytest.mark.parametrize(
    ("error", "code", "own_code"),
    [
        (Permanent("x.no"), "HANDLER_FAILED", "x.no"),
        (Permanent(Code.EXPIRED), "EXPIRED", None),
        (caused(ValueError(), Permanent("x.no")), "HANDLER_FAILED", "x.no"),
        (group(ValueError(), Permanent("x.no")), "HANDLER_FAILED", "x.no"),
        (group(RetryLater(60), group(ValueError(), group(Permanent("x.no")))), "HANDLER_FAILED", "x.no"),
        (group(RetryLater(60), BusError(Code.NOT_FOUND, "")), "NOT_FOUND", None),
        (group(BusError(Code.STORE_BUSY, ""), Permanent(Code.RATE_LIMITED)), "RATE_LIMITED", None),
        (BaseExceptionGroup("", [BaseExceptionGroup("", [Permanent("x.no")])]), "HANDLER_FAILED", "x.no"),
    ],
)
def test_a_permanent_error_anywhere_is_the_end(error: BaseException, code: str, own_code: str | None) -> None:
    event = event_of(error)

    assert isinstance(event, Dead)
    assert (event.code, event.own_code, event.ran) == (code, own_code, True)
    assert not is_failure_of_topic(error)


def test_retry_later_survives_a_copy() -> None:
    error = RetryLater(after_s=7, message="soon", shop=3)
    twin = copy.copy(error)

    assert type(twin) is RetryLater
    assert (twin.after_s, twin.message, twin.context, str(twin)) == (7, "soon", {"shop": 3}, str(error))


def test_retry_later_spends_the_budget_like_any_other() -> None:
    assert isinstance(event_of(RetryLater(7), failures=2), Fail)
    spent = event_of(RetryLater(7, "the shop is closed"), failures=3)

    assert isinstance(spent, Dead)
    assert (spent.code, spent.text) == ("HANDLER_FAILED", "RetryLater: HANDLER_FAILED: the shop is closed")


def test_all_texts_and_own_codes_of_a_group_are_kept() -> None:
    event = event_of(
        group(ValueError("one"), group(KeyError("two"), Permanent("x.a", "three")), Permanent("x.b"))
    )

    assert event.own_code == "x.a"
    for said in ("ValueError: one", "KeyError: 'two'", "(x.a): three", "(x.b)"):
        assert said in event.text


def test_a_text_that_is_no_unicode_is_made_valid() -> None:
    assert event_of(ValueError("\ud800 half")).text == "ValueError: \ufffd half"


def test_a_group_of_many_stays_short() -> None:
    assert len(event_of(group(*(ValueError("x" * 10_000) for _ in range(100)))).text) <= 2_000


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    "error", [Unspeakable(), ValueError("\ud800 half"), group(Unspeakable(), ValueError("\udfff"))]
)
async def test_an_error_that_cannot_be_told_harms_nobody(autojump_clock: MockClock, error: Exception) -> None:
    topology = Topology()

    @topology.on("chat.message", retry=NO_JITTER)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if ctx.failures == 0 and message.payload.text == "bad":
            raise error
        ctx.reply(message.payload.text)

    async with Harness(topology) as bot:
        await bot.say("fake:a", "bad")
        await bot.say("fake:b", "good")
        await bot.settle()

        assert bot.sent("fake:a") == ["bad"]
        assert bot.sent("fake:b") == ["good"]
        assert bot.runtime.counters.get("crashes", 0) == 0


@pytest.mark.parametrize(
    "after_s", [float("nan"), float("inf"), pytest.param(10**9_999, id="huge"), "5", None, True]
)
def test_a_bad_wait_is_refused_by_its_code(after_s: object) -> None:
    with pytest.raises(BusError) as refused:
        RetryLater(after_s)  # type: ignore[arg-type]  # what a handler may hand over

    assert refused.value.code is Code.INVALID_MESSAGE


async def test_retry_later_keeps_its_place_and_delays_nobody(autojump_clock: MockClock) -> None:
    topology, channel = Topology(), FakeChannel()
    ran_at: list[float] = []

    @topology.on("chat.message", retry=RetryPolicy(max_retries=2))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "wait":
            ran_at.append(trio.current_time())
            if ctx.failures < 2:
                raise RetryLater(100)
        ctx.reply(message.payload.text)

    async with Runtime.open(topology, store=open_memory(), adapters=[channel]) as runtime:
        await channel.say("a", "wait")
        await channel.say("a", "behind")
        await channel.say("b", "other")
        await trio.sleep(1)
        assert texts_to("b", channel) == ["other"]
        assert runtime.status().tokens_free == 1024
        await until_quiet(runtime, 1_000)

        assert texts_to("a", channel) == ["wait", "behind"]
        waits_s = [after - before for before, after in pairwise(ran_at)]
        assert waits_s == [pytest.approx(100, abs=0.1)] * 2
        (first,) = [row for row in runtime.messages.list() if row.message.payload.text == "wait"]
        assert [failure.code for failure in first.record.errors] == ["HANDLER_FAILED"] * 2


async def fail_later(error: Exception) -> None:
    try:
        await trio.sleep(0.01)
    finally:
        raise error


@pytest.mark.parametrize("store", ["memory", "sqlite-inline"])
async def test_a_handler_whose_nurseries_raise_groups(
    autojump_clock: MockClock, store: Literal["memory", "sqlite-inline"]
) -> None:
    """Nested, with the cancellations that nurseries add."""
    topology = Topology()

    @topology.on("chat.message", retry=NO_JITTER)
    async def answer(ctx: Context, message: BusMessage) -> None:
        errors: dict[str, Exception] = {
            "fatal": Permanent("x.never"), "later": RetryLater(5), "once": KeyError("two")
        }  # fmt: skip
        if ctx.failures == 0:
            async with trio.open_nursery() as outer:
                outer.start_soon(trio.sleep_forever)
                outer.start_soon(fail_later, ValueError("one"))
                async with trio.open_nursery() as inner:
                    inner.start_soon(trio.sleep_forever)
                    inner.start_soon(fail_later, errors[message.payload.text])
        ctx.reply(f"ok {message.payload.text}")

    async with Harness(topology, store=store) as bot:
        for text in ("fatal", "later", "once"):
            await bot.say(f"fake:{text}", text)
        await bot.settle()

        (dead,) = bot.dead()
        assert dead.record.failures == 1
        assert dead.record.errors[0].own_code == "x.never"
        assert "ValueError: one" in dead.record.errors[0].text
        assert [bot.sent(f"fake:{text}") for text in ("fatal", "later", "once")] == [
            [],
            ["ok later"],
            ["ok once"],
        ]
        assert all(row.record.failures <= 1 for row in bot.runtime.messages.list())


async def test_a_group_of_cancellations_has_no_code(autojump_clock: MockClock) -> None:
    caught: list[BaseException] = []

    async def keep() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled as error:
            caught.append(error)
            raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep)
        nursery.start_soon(keep)
        await trio.sleep(0.01)
        nursery.cancel_scope.cancel()

    assert error_code_of(BaseExceptionGroup("", caught)) is None
    assert error_code_of(BaseExceptionGroup("", [BaseExceptionGroup("", caught), *caught])) is None


async def test_a_turn_has_at_most_a_thousand_effects(autojump_clock: MockClock) -> None:
    topology = Topology()
    topology.topic("log")
    refused: list[Code] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        for number in range(MAX_EFFECTS // 2):
            ctx.send("fake", f"fake:c{number % 7}", str(number))
            ctx.publish("log", {"n": number})
        for decide in (lambda: ctx.reply("one more"), lambda: ctx.publish("chat.message", "one more")):
            try:
                decide()
            except BusError as error:
                refused.append(error.code)
                if message.payload.text == "over":
                    raise

    async with Harness(topology) as bot:
        await bot.say("fake:a", "full")
        await bot.settle()
        assert refused == [Code.TOO_LARGE] * 2
        assert len(bot.runtime.outbox.list(limit=2_000)) == MAX_EFFECTS // 2
        assert bot.dead() == []

        await bot.say("fake:a", "over")
        await bot.settle()
        (dead,) = bot.dead()
        assert [failure.code for failure in dead.record.errors] == ["TOO_LARGE"]
        assert len(bot.runtime.outbox.list(limit=2_000)) == MAX_EFFECTS // 2


@pytest.mark.parametrize("text", ["", " ", "\n\t ", "\u2003", "\u00a0"])
async def test_a_reply_of_white_space_is_refused_in_the_turn(autojump_clock: MockClock, text: str) -> None:
    topology = Topology()
    refused: list[Code] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        with pytest.raises(BusError) as replied:
            ctx.reply(text)
        with pytest.raises(BusError) as sent:
            ctx.send("fake", "fake:b", text)
        refused.extend((replied.value.code, sent.value.code))
        ctx.reply("fine")

    async with Harness(topology) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert refused == [Code.INVALID_MESSAGE] * 2
        assert bot.sent("fake:a") == ["fine"]
