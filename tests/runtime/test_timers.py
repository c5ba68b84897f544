"""Timers of turns: what is set, cancelled and fired, and what a handler may ask for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Literal, cast

import pytest
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Cron, Every, Topology
from shardline.runtime.defaults import TIMER_CHECK_S
from shardline.testing import Harness

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY_S = 86_400


def bot_of(act: Callable[[Context], object]) -> Topology:
    """Runs `act` for a message of a person; answers one of a timer with its text, `due` with the time it was due."""
    topology = Topology()
    topology.topic("log")

    @topology.on("chat.message")
    async def handle(ctx: Context, message: BusMessage) -> None:
        if message.causation_id is None:
            act(ctx)
        else:
            ctx.reply(f"{message.payload.text} {message.payload.sent_at} {message.hops}")

    return topology


async def refused(act: Callable[[Context], object]) -> BusError:
    """What `act` is refused with in a turn."""
    errors: list[BusError] = []

    def attempt(ctx: Context) -> None:
        try:
            act(ctx)
        except BusError as error:
            errors.append(error)

    async with Harness(bot_of(attempt)) as bot:
        await bot.say("fake:1", "go")
        await bot.settle()
        assert bot.runtime.timers.list() == []
    [error] = errors
    return error


async def test_those_of_one_time_arrive_in_the_order_they_were_set(autojump_clock: MockClock) -> None:
    """By turn and within a turn, also where their names read as text stand otherwise: 10 before 9."""
    turns = iter(range(12))

    def act(ctx: Context) -> None:
        turn = next(turns)
        for number in range(12 if turn == 11 else 1):
            ctx.schedule(f"{turn}.{number}", at=START + timedelta(hours=2))

    async with Harness(bot_of(act)) as bot:
        for _ in range(12):
            await bot.say("fake:1", "go")
        await bot.settle(until_s=7201)
        came = [text.split()[0] for text in bot.sent("fake:1")]
        assert came == [f"{turn}.0" for turn in range(11)] + [f"11.{number}" for number in range(12)]


async def test_a_thousand_of_one_time_arrive_in_the_order_they_were_set(autojump_clock: MockClock) -> None:
    """Many batches of them; the first is set by the ninth message, so that numbers of two lengths follow."""
    turns = iter(range(12))

    def act(ctx: Context) -> None:
        turn = next(turns)
        for number in range(500 if turn in {8, 10} else 0):
            ctx.schedule(f"{turn}.{number}", at=START + timedelta(hours=2))

    async with Harness(bot_of(act)) as bot:
        for _ in range(12):
            await bot.say("fake:1", "go")
        await bot.settle(until_s=7201)
        came = [text.split()[0] for text in bot.sent("fake:1")]
        assert came == [f"{turn}.{number}" for turn in (8, 10) for number in range(500)]


@pytest.mark.parametrize("store", ["memory", "sqlite-inline"])
async def test_what_is_scheduled_arrives_at_its_time(
    store: Literal["memory", "sqlite-inline"], autojump_clock: MockClock
) -> None:
    def act(ctx: Context) -> None:
        ctx.schedule("later", after_s=3600)
        ctx.schedule("at once", after_s=0)
        ctx.schedule("at two", at=START + timedelta(hours=2))
        ctx.schedule("long ago", at=START - timedelta(days=1))
        ctx.schedule("there", after_s=60, key="fake:2")

    async with Harness(bot_of(act), store=store) as bot:
        await bot.say("fake:1", "go")
        await bot.settle()
        assert sorted(bot.sent("fake:1")) == [
            "at once 2026-01-01T00:00:00Z 1",
            "long ago 2025-12-31T00:00:00Z 1",
        ]
        assert bot.sent("fake:2") == []
        assert bot.runtime.status().timers == 3

        await bot.settle(until_s=61)
        assert bot.sent("fake:2") == ["there 2026-01-01T00:01:00Z 1"]
        await bot.settle(until_s=7200)
        assert bot.sent("fake:1")[2:] == ["later 2026-01-01T01:00:00Z 1", "at two 2026-01-01T02:00:00Z 1"]
        assert bot.runtime.status().timers == 0
        assert bot.runtime.status().next_timer_at_us is None


async def test_settle_waits_for_no_timer_past_its_horizon(autojump_clock: MockClock) -> None:
    async with Harness(bot_of(lambda ctx: ctx.schedule("later", after_s=10))) as bot:
        await bot.say("fake:1", "go")
        begun_us = bot.clock.wall_us()
        await bot.settle(until_s=10)
        assert bot.clock.wall_us() == begun_us
        assert bot.sent("fake:1") == []
        await bot.advance(10)
        await bot.settle()
        assert len(bot.sent("fake:1")) == 1


async def test_a_turn_that_fails_sets_nothing(autojump_clock: MockClock) -> None:
    def act(ctx: Context) -> None:
        ctx.schedule("never", after_s=1)
        raise ValueError

    async with Harness(bot_of(act)) as bot:
        await bot.say("fake:1", "go")
        await bot.settle()
        assert bot.runtime.timers.list() == []
        assert len(bot.dead()) == 1


async def test_an_event_arrives_in_the_log(autojump_clock: MockClock) -> None:
    def act(ctx: Context) -> None:
        ctx.schedule({"n": 1}, after_s=5, topic="log", key="k", headers={"a": "b"})
        ctx.schedule([2], after_s=5, topic="log")

    async with Harness(bot_of(act)) as bot:
        await bot.say("fake:1", "go")
        await bot.settle(until_s=6)
        assert bot.runtime.timers.list() == []
        assert bot.runtime.counters["timers_fired"] == 2


async def test_a_repeating_one_goes_on_until_it_is_cancelled(autojump_clock: MockClock) -> None:
    names: list[str] = []

    def act(ctx: Context) -> None:
        if names:
            assert ctx.cancel(names[0])
        else:
            names.append(ctx.schedule("tick", every=Every(60)))

    async with Harness(bot_of(act)) as bot:
        await bot.say("fake:1", "go")
        await bot.settle(until_s=181)
        assert [text.split()[1] for text in bot.sent("fake:1")] == [
            f"2026-01-01T00:0{n}:00Z" for n in (1, 2, 3)
        ]
        await bot.say("fake:1", "stop")
        await bot.settle(until_s=DAY_S)
        assert len(bot.sent("fake:1")) == 3


async def test_what_is_missed_is_made_up_for_once(autojump_clock: MockClock) -> None:
    """The runtime does not run while the clock goes on: one firing for all that was missed, then the next to come."""

    def act(ctx: Context) -> None:
        ctx.schedule("tick", every=Every(60))
        ctx.schedule("noon", every=Cron.daily("12:00"))

    async with Harness(bot_of(act), store="sqlite-inline") as bot:
        await bot.say("fake:1", "go")
        await bot.settle()
        bot.clock.jump_wall(3 * DAY_S * 1_000_000 + 30_000_000)
        await bot.crash()
        await bot.settle()
        assert sorted(text.split()[0] for text in bot.sent("fake:1")) == ["noon", "tick"]
        due = {row.content.payload: row.record.due_at_us for row in bot.runtime.timers.list()}
        assert due["tick"] - bot.clock.wall_us() == 30_000_000
        assert due["noon"] == round((START + timedelta(days=3, hours=12)).timestamp()) * 1_000_000


@pytest.mark.parametrize("jump_s", [-DAY_S * 365, -3600, 3600, DAY_S * 365])
async def test_a_clock_that_jumps_fires_once(jump_s: int, autojump_clock: MockClock) -> None:
    """Forward it is noticed within the half minute, backward a pause is waited at most twice."""
    async with Harness(bot_of(lambda ctx: ctx.schedule("later", after_s=600))) as bot:
        await bot.say("fake:1", "go")
        await bot.settle()
        await bot.advance(100)
        bot.clock.jump_wall(jump_s * 1_000_000)
        await bot.advance(TIMER_CHECK_S if jump_s > 0 else 100)
        await bot.settle()
        assert len(bot.sent("fake:1")) == (jump_s > 0)
        await bot.advance(600)
        await bot.settle()
        assert len(bot.sent("fake:1")) == 1
        await bot.settle(until_s=DAY_S)
        assert len(bot.sent("fake:1")) == 1


async def test_a_clock_set_back_over_a_restart_delays_a_pause_by_no_more_than_itself(
    autojump_clock: MockClock,
) -> None:
    async with Harness(bot_of(lambda ctx: ctx.schedule("later", after_s=600)), store="sqlite-inline") as bot:
        await bot.say("fake:1", "go")
        await bot.settle()
        bot.clock.jump_wall(-DAY_S * 1_000_000)
        await bot.crash()
        await bot.settle()
        [timer] = bot.runtime.timers.list()
        assert timer.record.due_at_us - bot.clock.wall_us() == 600_000_000


async def test_cancel_says_what_there_was(autojump_clock: MockClock) -> None:
    told: list[object] = []
    names: list[str] = []

    def act(ctx: Context) -> None:
        if not names:
            names.append(ctx.schedule("kept", after_s=60, key="fake:2"))
            own = ctx.schedule("dropped", after_s=60)
            told.extend((ctx.cancel(own), ctx.cancel(own)))
            assert ctx.schedule("also kept", after_s=60) not in {own, names[0]}
        else:
            told.extend((ctx.cancel(names[0]), ctx.cancel(names[0])))

    async with Harness(bot_of(act)) as bot:
        await bot.say("fake:1", "go")
        await bot.settle()
        assert {str(row.content.payload) for row in bot.runtime.timers.list()} == {"kept", "also kept"}
        await bot.say("fake:3", "cancel it from elsewhere")
        await bot.settle()
        await bot.say("fake:1", "and once more")
        await bot.settle(until_s=100)
        assert told == [True, False, True, False, False, False]
        assert bot.sent("fake:2") == []
        assert len(bot.sent("fake:1")) == 1


ODD: list[Callable[[Context], object]] = [
    lambda ctx: ctx.schedule("x"),
    lambda ctx: ctx.schedule("x", after_s=1, at=START),
    lambda ctx: ctx.schedule("x", after_s=1, every=Every(60)),
    lambda ctx: ctx.schedule("x", after_s=-1),
    lambda ctx: ctx.schedule("x", after_s=float("nan")),
    lambda ctx: ctx.schedule("x", after_s=float("inf")),
    lambda ctx: ctx.schedule("x", after_s=True),
    lambda ctx: ctx.schedule("x", after_s=cast("float", "1")),
    lambda ctx: ctx.schedule("x", at=cast("datetime", "2026-01-01T00:00:00Z")),
    lambda ctx: ctx.schedule("x", at=datetime(1960, 1, 1, tzinfo=UTC)),
    lambda ctx: ctx.schedule("x", every=cast("Every", "60")),
    lambda ctx: ctx.schedule(" ", after_s=1),
    lambda ctx: ctx.schedule({"n": 1}, after_s=1),
    lambda ctx: ctx.schedule("x", after_s=1, key="no key"),
    lambda ctx: ctx.schedule("x", after_s=1, key="tg:@name"),
    lambda ctx: ctx.schedule(float("nan"), after_s=1, topic="log"),
    lambda ctx: ctx.cancel("7"),
    lambda ctx: ctx.cancel("every-report"),
    lambda ctx: ctx.cancel(cast("str", None)),
]


@pytest.mark.parametrize("act", ODD)
async def test_what_cannot_be_meant_is_refused(
    act: Callable[[Context], object], autojump_clock: MockClock
) -> None:
    error = await refused(act)
    assert error.code is Code.INVALID_MESSAGE


@pytest.mark.parametrize(
    ("topic", "code"), [("no.such", Code.INVALID_TOPIC), ("dm.reply.v1", Code.NO_SUBSCRIBER)]
)
async def test_a_topic_that_nobody_takes_is_refused(
    topic: str, code: Code, autojump_clock: MockClock
) -> None:
    error = await refused(lambda ctx: ctx.schedule("x", after_s=1, topic=topic))
    assert error.code is code


async def test_a_chain_of_timers_ends_like_any_other(autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def again(ctx: Context, message: BusMessage) -> None:
        ctx.schedule("again", after_s=1)

    async with Harness(topology) as bot:
        await bot.say("fake:1", "go")
        await bot.settle(until_s=1000)
        [dead] = bot.dead()
        assert dead.record.errors[-1].code == Code.HOP_LIMIT
        assert bot.runtime.counters["timers_fired"] == 64


async def test_an_ended_turn_schedules_nothing(autojump_clock: MockClock) -> None:
    kept: list[Context] = []
    async with Harness(bot_of(kept.append)) as bot:
        await bot.say("fake:1", "go")
        await bot.settle()
        calls: list[Callable[[], object]] = [
            lambda: kept[0].schedule("x", after_s=1),
            lambda: kept[0].cancel("timer-1-1-1-1"),
        ]
        for call in calls:
            with pytest.raises(BusError) as caught:
                call()
            assert caught.value.code is Code.STALE_CLAIM
