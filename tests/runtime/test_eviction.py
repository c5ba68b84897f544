"""Idle conversations leave memory, and come back with one look at the disk, in order, whatever happens meanwhile."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, RetryPolicy, Runtime, Topology
from shardline.actors.clock import FakeClock
from shardline.runtime.defaults import WARM_S, WARM_STATE_BYTES
from shardline.runtime.warm import WarmKeys
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import check_all_done, check_counted, counting_bot, texts_to, until_quiet
from tests.kits.counted import CountedReads, counted_store

START_US = 1_767_225_600_000_000
LONG_S = 2 * WARM_S + 0.1


@attrs.define
class Watched:
    """A runtime over a store whose reads are counted."""

    runtime: Runtime
    channel: FakeChannel
    reads: CountedReads

    async def say_at_once(self, address: str, count: int) -> None:
        """So many messages of one conversation, each handed over by a task of its own."""
        async with trio.open_nursery() as nursery:
            for number in range(1, count + 1):
                nursery.start_soon(self.channel.say, address, f"text {number}")

    async def until_evicted(self) -> None:
        """Let what is idle go, and forget what was read so far."""
        await until_quiet(self.runtime)
        await trio.sleep(LONG_S)
        assert self.runtime.status().lanes == 0
        self.reads.calls.clear()
        self.reads.rows.clear()

    def accepted_order(self, address: str) -> list[str]:
        """The texts of a conversation in the order of their places."""
        rows = self.runtime.messages.list(key=f"fake:{address}", limit=1_000)
        return [row.message.payload.text for row in sorted(rows, key=lambda row: row.record.seq)]


@asynccontextmanager
async def watched(
    topology: Topology, *, database: MemoryDatabase | None = None, max_inflight: int = 1024
) -> AsyncGenerator[Watched]:
    clock = FakeClock(start_us=START_US)
    store, reads = counted_store(open_memory(database=database or MemoryDatabase(), clock=clock))
    channel = FakeChannel("fake")
    async with Runtime.open(
        topology, store=store, adapters=[channel], clock=clock, seed=1, max_inflight=max_inflight
    ) as runtime:
        yield Watched(runtime, channel, reads)


def test_warm_keys_go_when_they_have_been_idle_for_a_whole_round() -> None:
    warm = WarmKeys(3)
    for key in "abc":
        assert warm.add(key) is None
    assert warm.sweep() == []
    assert warm.add("b") is None
    assert warm.add("d") == "a"

    assert warm.sweep() == ["c"]
    warm.discard("b")
    assert warm.sweep() == ["d"]
    assert len(warm) == 0


def test_nothing_is_kept_without_room() -> None:
    warm = WarmKeys(0)

    assert warm.add("a") == "a"
    assert len(warm) == 0


async def test_idle_conversations_leave_memory_after_a_while_and_no_alarm_is_left(
    autojump_clock: MockClock,
) -> None:
    async with watched(counting_bot()) as bot:
        for number in range(20):
            await bot.channel.say(f"c{number}", "hi")
        await until_quiet(bot.runtime)
        assert bot.runtime.status().lanes == 40

        await trio.sleep(WARM_S / 2)
        assert bot.runtime.status().lanes == 40
        await trio.sleep(LONG_S)
        assert bot.runtime.status().lanes == 0


async def test_a_conversation_that_goes_on_stays_and_is_not_read_again(autojump_clock: MockClock) -> None:
    async with watched(counting_bot()) as bot:
        await bot.channel.say("a", "first")
        await until_quiet(bot.runtime)
        assert bot.reads.calls["state"] == 1
        for _ in range(10):
            await trio.sleep(WARM_S * 0.9)
            await bot.channel.say("a", "more")

        await until_quiet(bot.runtime)
        assert bot.reads.calls["state"] == 1


async def test_a_hundred_messages_at_once_after_eviction_load_the_conversation_once(
    autojump_clock: MockClock,
) -> None:
    async with watched(counting_bot(work_s=0.01)) as bot:
        await bot.channel.say("a", "first")
        await bot.until_evicted()
        await bot.say_at_once("a", 100)
        await until_quiet(bot.runtime)

        assert bot.reads.calls["state"] == 1
        assert bot.reads.rows["fake:a"] == 0, "what was pushed is not read"
        assert bot.accepted_order("a") == [text.partition(": ")[2] for text in texts_to("a", bot.channel)]
        check_counted({"a": bot.accepted_order("a")}, bot.channel)
        check_all_done(bot.runtime)


async def test_what_waits_on_disk_is_read_once_too(autojump_clock: MockClock) -> None:
    """Without tokens for all of them most of the hundred wait on disk: each row is read once, in pages."""
    async with watched(counting_bot(work_s=0.01), max_inflight=16) as bot:
        await bot.channel.say("a", "first")
        await bot.until_evicted()
        await bot.say_at_once("a", 100)
        await until_quiet(bot.runtime)

        assert bot.reads.calls["state"] == 1
        assert bot.reads.rows["fake:a"] <= 100
        check_counted({"a": bot.accepted_order("a")}, bot.channel)
        check_all_done(bot.runtime, max_inflight=16)


async def test_a_backlog_found_at_the_start_is_read_once(autojump_clock: MockClock) -> None:
    database = MemoryDatabase()
    async with watched(counting_bot(work_s=3_600), database=database) as bot:
        await bot.say_at_once("a", 100)
        said = bot.accepted_order("a")
        database = database.copy()
        bot.runtime.request_stop()
        bot.runtime.request_stop()
    async with watched(counting_bot(), database=database) as bot:
        await until_quiet(bot.runtime)

        assert bot.reads.calls["state"] == 1
        assert bot.reads.rows["fake:a"] == 100
        check_counted({"a": said}, bot.channel)


@pytest.mark.parametrize(("size", "reads"), [(WARM_STATE_BYTES // 2, 1), (WARM_STATE_BYTES * 2, 3)])
async def test_a_large_state_is_not_kept_with_an_idle_conversation(
    autojump_clock: MockClock, size: int, reads: int
) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.sleep(0.01)
        ctx.state["text"] = "x" * size
        ctx.state["n"] = cast("int", ctx.state.get("n", 0)) + 1
        ctx.reply(str(ctx.state["n"]))

    async with watched(topology) as bot:
        for _ in range(3):
            await bot.say_at_once("a", 5)
            await until_quiet(bot.runtime)

        assert texts_to("a", bot.channel) == [str(number) for number in range(1, 16)]
        assert bot.reads.calls["state"] == reads


def stumbling_bot() -> Topology:
    """The counting bot, whose turns take their time and sometimes fail once."""
    topology = Topology()

    @topology.on("chat.message", retry=RetryPolicy(max_retries=3, base_delay_s=0.5, jitter="none"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        turns = cast("int", ctx.state.get("turns", 0))
        await trio.sleep(0.3 * (turns % 3))
        if message.payload.text.endswith("7") and ctx.failures == 0:
            raise ValueError("once")
        ctx.state["turns"] = turns + 1
        if message.payload.text.endswith("5"):
            ctx.state["ballast"] = "x" * 2 * WARM_STATE_BYTES
        ctx.reply(f"{turns + 1}: {message.payload.text}")

    return topology


def stored_sends(bot: Harness, address: str) -> list[str]:
    """The texts of a conversation's sends as decided, in order."""
    rows = bot.runtime.outbox.list(key=f"fake:{address}", limit=1_000)
    return [row.content.text for row in sorted(rows, key=lambda row: row.record.seq)]


@pytest.mark.parametrize("seed", range(12))
async def test_nothing_is_lost_or_out_of_order_whenever_conversations_come_and_go(
    autojump_clock: MockClock, seed: int
) -> None:
    """Messages, pauses around the length of the eviction, and crashes, in any order, against what was said."""
    chance = random.Random(seed)
    said: defaultdict[str, list[str]] = defaultdict(list)
    channel = FakeChannel("fake")
    async with Harness(stumbling_bot(), channels=[channel], max_inflight=8, seed=seed) as bot:
        for step in range(60):
            match chance.choice(["say", "say", "say", "burst", "pause", "blink", "crash"]):
                case "say":
                    address = chance.choice("abcdef")
                    said[address].append(f"t{step}")
                    await bot.say(f"fake:{address}", f"t{step}", platform_message_id=f"{address}{step}")
                case "burst":
                    for address in chance.sample("abcdef", 3):
                        for number in range(3):
                            said[address].append(f"t{step}{number}")
                            name = f"{address}{step}-{number}"
                            await bot.say(f"fake:{address}", f"t{step}{number}", platform_message_id=name)
                case "pause":
                    await bot.advance(chance.uniform(0, 2 * LONG_S))
                case "blink":
                    # To the very moment of a sweep.
                    await bot.advance(WARM_S)
                case _:
                    await bot.crash()
        await bot.settle()
        await bot.advance(LONG_S)

        assert bot.runtime.status().lanes == 0
        assert bot.runtime.status().tokens_free == 8
        assert bot.dead() == []
        for address, texts in said.items():
            answers = bot.sent(f"fake:{address}")
            # A send that was under way in a crash is uncertain and waits for a person; all others went out once.
            assert answers == sorted(set(answers), key=lambda answer: int(answer.partition(":")[0]))
            expected = [f"{number}: {text}" for number, text in enumerate(texts, 1)]
            assert set(answers) <= set(expected)
            rows = sorted(
                bot.runtime.messages.list(key=f"fake:{address}", limit=1_000), key=lambda row: row.record.seq
            )
            assert [row.message.payload.text for row in rows] == texts
            assert {str(row.record.status) for row in rows} == {"done"}
            assert stored_sends(bot, address) == expected
