"""Messages that cause one another: the 65th is dead where it arrives, and nothing else is."""

from __future__ import annotations

from typing import Literal

import attrs
import pytest
from structlog.testing import capture_logs
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Every, Permanent, Runtime, Topology
from shardline.runtime.defaults import MAX_HOPS
from shardline.storage.memory import open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import check_all_done, new_message, texts_to, until_quiet


def ping_pong(runs: list[tuple[str, int]]) -> Topology:
    """Two conversations that answer each other for ever."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        runs.append((message.conversation_key, message.hops))
        other = "fake:pong" if message.conversation_key == "fake:ping" else "fake:ping"
        ctx.state["last"] = message.hops
        ctx.reply(f"hop {message.hops}")
        ctx.publish("chat.message", "and you?", key=other)

    return topology


@pytest.mark.parametrize("emits", ["atomic", "relayed"])
async def test_ping_pong_ends_with_one_dead_message(
    autojump_clock: MockClock, emits: Literal["atomic", "relayed"]
) -> None:
    runs: list[tuple[str, int]] = []
    channel = FakeChannel()
    with capture_logs() as logs:
        async with Runtime.open(
            ping_pong(runs), store=open_memory(emits=emits), adapters=[channel]
        ) as runtime:
            await channel.say("ping", "start")
            await until_quiet(runtime)

            assert runs == [("fake:pong" if n % 2 else "fake:ping", n) for n in range(MAX_HOPS + 1)]
            (dead,) = runtime.dead_letters.list()
            assert (dead.message.hops, dead.record.conversation_key) == (MAX_HOPS + 1, "fake:pong")
            assert [(e.code, dead.record.failures, dead.record.claim) for e in dead.record.errors] == [
                ("HOP_LIMIT", 0, 1)
            ]
            # Whoever caused it is done, with all that it decided.
            assert runtime.status().inbox[InboxStatus.DONE] == MAX_HOPS + 1
            assert texts_to("ping", channel)[-1] == f"hop {MAX_HOPS}"
            await channel.say("pong", "still there?")
            await runtime.wait_until(lambda: runs[-1] == ("fake:pong", 0))

    assert "HOP_LIMIT" in {line["bus_error_code"] for line in logs if line["event"] == "turn.died"}


async def test_a_fan_out_of_messages_over_the_limit_is_dead_row_by_row(autojump_clock: MockClock) -> None:
    topology = Topology()
    runs: list[int] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        runs.append(message.hops)
        if message.hops == MAX_HOPS:
            for number in range(5):
                ctx.publish("chat.message", f"to {number}", key=f"fake:c{number}")
        ctx.reply(message.payload.text)

    async with Harness(topology) as bot:
        for hops in (MAX_HOPS, MAX_HOPS + 1, 2**40):
            await bot.runtime.publish_validated(attrs.evolve(new_message(f"hops {hops}"), hops=hops))
        await bot.say("fake:a", "behind")
        await bot.settle()

        # From outside too: stored, and dead.
        assert runs == [MAX_HOPS, 0]
        assert bot.sent("fake:a") == [f"hops {MAX_HOPS}", "behind"]
        assert len(bot.dead()) == 5 + 2
        assert {row.record.errors[0].code for row in bot.dead()} == {"HOP_LIMIT"}
        assert bot.runtime.status().tokens_free == 1024


async def test_sent_through_again_by_a_person_it_runs_and_its_own_messages_do_not(
    autojump_clock: MockClock,
) -> None:
    runs: list[tuple[str, int]] = []
    async with Harness(ping_pong(runs)) as bot:
        await bot.runtime.publish_validated(
            attrs.evolve(new_message("far", key="fake:ping"), hops=MAX_HOPS + 1)
        )
        await bot.settle()
        assert runs == []
        (dead,) = bot.dead()

        await bot.requeue(dead.record.id)
        await bot.settle()
        assert runs == [("fake:ping", MAX_HOPS + 1)]
        assert [(row.message.hops, row.record.conversation_key) for row in bot.dead()] == [
            (MAX_HOPS + 2, "fake:pong")
        ]


@pytest.mark.parametrize("catches", [True, False])
async def test_an_event_over_the_limit_is_refused_in_the_turn(
    autojump_clock: MockClock, catches: bool
) -> None:
    """It has no row that could be dead."""
    topology = Topology()
    topology.topic("log")
    refused: list[Code] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("noted")
        try:
            ctx.publish("log", {"hops": message.hops})
        except BusError as error:
            refused.append(error.code)
            if not catches:
                raise Permanent("x.loop") from error

    async with Harness(topology) as bot:
        await bot.runtime.publish_validated(attrs.evolve(new_message("hi"), hops=MAX_HOPS))
        await bot.settle()

        assert refused == [Code.HOP_LIMIT]
        assert bot.sent("fake:a") == (["noted"] if catches else [])
        assert len(bot.dead()) == (0 if catches else 1)


async def test_below_the_limit_nothing_is_said(autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.hops < MAX_HOPS:
            ctx.publish("chat.message", "again")

    channel = FakeChannel()
    async with Runtime.open(topology, store=open_memory(), adapters=[channel]) as runtime:
        await channel.say("a", "start")
        await until_quiet(runtime)
        check_all_done(runtime)
        assert runtime.status().inbox[InboxStatus.DONE] == MAX_HOPS + 1


async def test_a_handler_that_schedules_itself_ends_as_a_loop_and_a_repeating_timer_does_not(
    autojump_clock: MockClock,
) -> None:
    """Each of the first is caused by the one before; all of the second by the one that set it."""
    topology = Topology()
    runs: list[tuple[str, int]] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        runs.append((message.conversation_key, message.hops))
        if message.payload.text == "every":
            ctx.schedule("tick", every=Every(60))
        elif message.payload.text != "tick":
            ctx.schedule("and again", after_s=60, key=message.conversation_key)

    async with Harness(topology, store="sqlite-inline") as bot:
        await bot.say("fake:self", "begin")
        await bot.say("fake:rule", "every")
        await bot.settle(until_s=60 * 100 + 30)

        own = [hops for key, hops in runs if key == "fake:self"]
        assert own == list(range(MAX_HOPS + 1))
        # As with an event, there is no row of the next one: the turn that wants it is refused, and its message is dead.
        (dead,) = bot.dead()
        assert (dead.message.hops, dead.record.conversation_key) == (MAX_HOPS, "fake:self")
        assert [error.code for error in dead.record.errors] == ["HOP_LIMIT"]
        assert [hops for key, hops in runs if key == "fake:rule"] == [0] + [1] * 100


async def test_a_ring_of_topics_and_conversations_through_timers_ends_with_one_dead_message(
    autojump_clock: MockClock,
) -> None:
    topology = Topology()
    runs: list[tuple[str, int]] = []
    ring = {"ring.a": "ring.b", "ring.b": "ring.c", "ring.c": "ring.a"}

    async def pass_on(ctx: Context, message: BusMessage) -> None:
        runs.append((message.topic, message.hops))
        if message.hops % 2:
            ctx.publish(ring[message.topic], "on", key=f"fake:{message.hops % 5}")
        else:
            ctx.schedule("on", after_s=0, topic=ring[message.topic], key=f"fake:{message.hops % 5}")

    for topic in (*ring, "chat.message"):
        topology.on(topic)(pass_on)
    async with Harness(topology, store="sqlite-inline") as bot:
        await bot.runtime.publish(attrs.evolve(new_message("on"), topic="ring.a"))
        await bot.settle()

        assert [hops for _, hops in runs] == list(range(MAX_HOPS + 1))
        (dead,) = bot.dead()
        assert [error.code for error in dead.record.errors] == ["HOP_LIMIT"]
        assert bot.runtime.status().timers == 0
