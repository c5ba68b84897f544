"""A whole bot on the fake channel: what a handler decides happens once, in order, or not at all."""

from __future__ import annotations

from typing import Literal

import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Permanent, RetryPolicy, Topology
from shardline.adapters.base import Sent, Uncertain
from shardline.storage.records import InboxStatus, OutboxState
from shardline.testing import Harness

StoreKind = Literal["memory", "sqlite-inline"]
STORES: tuple[StoreKind, ...] = ("memory", "sqlite-inline")
NO_JITTER = RetryPolicy(max_retries=3, base_delay_s=1, jitter="none")


def counting_bot() -> Topology:
    topology = Topology()

    @topology.on("chat.message", retry=NO_JITTER)
    async def answer(ctx: Context, message: BusMessage) -> None:
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        ctx.reply(f"{turns + 1}: {message.payload.text}")

    return topology


async def test_each_conversation_is_answered_in_order(autojump_clock: MockClock) -> None:
    async with Harness(counting_bot()) as bot:
        for number in range(5):
            await bot.say("fake:a", f"a{number}")
            await bot.say("fake:b", f"b{number}")
        await bot.settle()

        assert bot.sent("fake:a") == [f"{n + 1}: a{n}" for n in range(5)]
        assert bot.sent("fake:b") == [f"{n + 1}: b{n}" for n in range(5)]
        status = bot.runtime.status()
        assert status.inbox[InboxStatus.DONE] == sum(status.inbox.values()) == 10
        assert status.outbox[OutboxState.SENT] == sum(status.outbox.values()) == 10
        assert status.tokens_free == 1024


async def test_a_repeat_is_a_duplicate(autojump_clock: MockClock) -> None:
    async with Harness(counting_bot()) as bot:
        assert await bot.say("fake:a", "hi", platform_message_id="m1")
        assert not await bot.say("fake:a", "hi", platform_message_id="m1")
        await bot.settle()

        assert bot.sent("fake:a") == ["1: hi"]
        assert bot.runtime.status().run["duplicates"] == 1


async def test_an_uncertain_reply_waits_for_a_person(autojump_clock: MockClock) -> None:
    async with Harness(counting_bot(), channels=["telegram"]) as bot:
        bot.channel("telegram").script(Sent("11"), Uncertain("no answer"))
        await bot.say("tg:1", "one")
        await bot.say("tg:1", "two")
        await bot.say("tg:1", "three")
        await bot.settle(until_s=10)

        row = bot.outbox("tg:1")[1]
        assert row.status == "pending"
        assert row.uncertain_since_us is not None
        assert bot.sent("tg:1") == ["1: one", "3: three"]

        await bot.resolve(row, "resend")
        await bot.settle()
        assert bot.sent("tg:1") == ["1: one", "3: three", "2: two"]
        with pytest.raises(BusError) as refused:
            await bot.resolve(row, "resend")
        assert refused.value.code is Code.INVALID_TRANSITION


@pytest.mark.parametrize("store", STORES)
async def test_a_handler_that_fails_twice_keeps_its_order_and_delays_nobody(
    autojump_clock: MockClock, store: StoreKind
) -> None:
    topology = Topology()
    seen: list[tuple[str, str, float]] = []

    @topology.on("chat.message", retry=NO_JITTER)
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)
        if message.payload.text == "a1" and ctx.failures < 2:
            raise ValueError("not yet")
        seen.append((message.conversation_key, message.payload.text, trio.current_time()))

    async with Harness(topology, store=store) as bot:
        start = trio.current_time()
        for text in ("a1", "a2", "a3"):
            await bot.say("fake:a", text)
        await bot.say("fake:b", "b1")
        await bot.settle()

        assert bot.sent("fake:a") == ["a1", "a2", "a3"]
        at = {text: when - start for _, text, when in seen}
        assert [text for key, text, _ in seen if key == "fake:a"] == ["a1", "a2", "a3"]
        assert at["b1"] < 0.1
        assert 3.0 <= at["a1"] < 3.2
        assert bot.runtime.status().retried == (2, 0)
        assert bot.runtime.status().tokens_free == 1024


@pytest.mark.parametrize("store", STORES)
async def test_a_handler_that_always_fails_ends_as_a_dead_letter(
    autojump_clock: MockClock, store: StoreKind
) -> None:
    topology = Topology()
    broken = True
    handled: list[str] = []

    @topology.on("chat.message", retry=NO_JITTER)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "bad" and broken:
            raise ValueError(f"failure {ctx.failures}")
        handled.append(message.payload.text)
        ctx.reply(f"{message.payload.text} {ctx.generation}")

    async with Harness(topology, store=store) as bot:
        await bot.say("fake:a", "bad")
        await bot.say("fake:a", "good")
        await bot.settle()

        (dead,) = bot.dead()
        assert [failure.text for failure in dead.record.errors] == [
            f"ValueError: failure {n}" for n in range(4)
        ]
        assert {failure.code for failure in dead.record.errors} == {"HANDLER_FAILED"}
        assert bot.sent("fake:a") == ["good 0"]

        broken = False
        await bot.requeue(dead.record.id)
        await bot.settle()
        assert handled == ["good", "bad"]
        assert bot.sent("fake:a") == ["good 0", "bad 1"]
        with pytest.raises(BusError) as again:
            await bot.requeue(dead.record.id)
        assert again.value.code is Code.INVALID_TRANSITION
        assert bot.dead() == []


async def test_permanent_is_dead_at_once_with_its_own_code(autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("never sent")
        raise Permanent("x.no_text", "nothing to answer")

    async with Harness(topology) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        (dead,) = bot.dead()
        (failure,) = dead.record.errors
        assert (failure.code, failure.own_code) == ("HANDLER_FAILED", "x.no_text")
        assert bot.outbox("fake:a") == []


async def test_a_context_used_after_its_turn_is_stale(autojump_clock: MockClock) -> None:
    topology = Topology()
    kept: list[Context] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        kept.append(ctx)

    async with Harness(topology) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        with pytest.raises(BusError) as late:
            kept[0].reply("too late")
        assert late.value.code is Code.STALE_CLAIM


async def test_sends_and_publishes_to_other_conversations_happen_once(autojump_clock: MockClock) -> None:
    topology = Topology()
    topology.topic("order.shipped")

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "start":
            for other in range(20):
                ctx.send("fake", f"fake:other-{other}", f"to {other}", idempotency_key=f"hello-{other}")
                ctx.publish("chat.message", f"poke {other}", key=f"fake:other-{other}")
            ctx.publish("order.shipped", {"n": 1}, key="k")
            if ctx.failures == 0:
                raise ValueError("once more")
        else:
            ctx.reply(f"{message.payload.text} by {message.hops}")

    async with Harness(topology) as bot:
        await bot.say("fake:a", "start")
        await bot.settle()

        for other in range(20):
            assert sorted(bot.sent(f"fake:other-{other}")) == [f"poke {other} by 1", f"to {other}"]
        assert bot.runtime.status().tokens_free == 1024


async def test_one_key_for_two_sends_is_refused(autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.send("fake", message.conversation_key, message.payload.text, idempotency_key="the-key")

    async with Harness(topology) as bot:
        await bot.say("fake:a", "one")
        await bot.say("fake:a", "one")
        await bot.say("fake:a", "other")
        await bot.settle()

        assert bot.sent("fake:a") == ["one"]
        (dead,) = bot.dead()
        assert dead.message.payload.text == "other"
        assert dead.record.errors[0].code == "IDENTITY_MISMATCH"


async def test_a_bad_message_from_a_linear_edge_is_counted_and_harms_nobody(
    autojump_clock: MockClock,
) -> None:
    async with Harness(counting_bot()) as bot:
        assert not await bot.say("fake:a", "")
        assert await bot.say("fake:a", "fine")
        await bot.settle()

        assert bot.sent("fake:a") == ["1: fine"]
        assert bot.runtime.status().run["refused"] == 1


@pytest.mark.parametrize("store", STORES)
async def test_state_that_cannot_be_stored_kills_only_its_message(
    autojump_clock: MockClock, store: StoreKind
) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("never" if message.payload.text == "nan" else "ok")
        if message.payload.text == "nan":
            ctx.state["x"] = [1.0, float("nan")]

    async with Harness(topology, store=store) as bot:
        await bot.say("fake:a", "nan")
        await bot.say("fake:a", "fine")
        await bot.settle()

        assert bot.sent("fake:a") == ["ok"]
        (dead,) = bot.dead()
        assert dead.record.errors[0].code == "INVALID_MESSAGE"
        assert "$.x[1]" in dead.record.errors[0].text


@pytest.mark.parametrize("store", STORES)
async def test_a_crash_in_a_handler_runs_it_again_and_sends_once(
    autojump_clock: MockClock, store: StoreKind
) -> None:
    topology = Topology()
    runs: list[tuple[str, int]] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        runs.append((message.payload.text, ctx.claim))
        if message.payload.text == "slow" and ctx.claim == 1:
            await trio.sleep(25)
        ctx.reply(message.payload.text)

    async with Harness(topology, store=store) as bot:
        await bot.say("fake:a", "first")
        await bot.settle()
        await bot.say("fake:a", "slow")
        await bot.say("fake:a", "last")
        await bot.settle(until_s=1)
        await bot.crash()
        await bot.settle()

        assert runs == [("first", 1), ("slow", 1), ("slow", 2), ("last", 1)]
        assert bot.sent("fake:a") == ["first", "slow", "last"]
        slow = bot.runtime.messages.list()[1]
        assert (slow.record.crashes, slow.record.failures) == (0, 0)
