"""Lanes that a breaker holds: through crashes, stops and restarts, with no token and no message in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from shardline import (
    Breaker,
    BusMessage,
    Context,
    Permanent,
    RetryPolicy,
    Runtime,
    Topology,
)
from shardline.runtime.breaker import CircuitState
from shardline.runtime.lane_row import LaneRow
from shardline.runtime.lanes import Lanes
from shardline.runtime.shard_inbox import ShardInbox
from shardline.runtime.turn_breaker import TurnBreaker
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.testing import FakeChannel
from tests.kits.backend import SLOWLY, Backend, open_it, state
from tests.kits.bots import texts_to, until_quiet
from tests.kits.crashes import crash_in


async def test_a_crash_while_it_is_open_loses_nothing(autojump_clock: MockClock) -> None:
    """The next process begins closed; what was deferred waits no longer than it was told."""
    backend, channel, database = Backend(), FakeChannel(), MemoryDatabase()
    async with Runtime.open(
        backend.bot(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        await open_it(runtime, channel, backend)
        for number in range(10):
            await channel.say(f"c{number}", "one")
            await channel.say(f"c{number}", "two")
        await trio.sleep(1)
        left = database.copy()

    backend.error = None
    after = FakeChannel()
    async with Runtime.open(backend.bot(), store=open_memory(database=left), adapters=[after]) as runtime:
        assert state(runtime) is CircuitState.CLOSED
        rows = [row.record for row in runtime.messages.list(limit=100)]
        assert {record.crashes for record in rows} == {0}
        began = trio.current_time()
        await runtime.wait_until(lambda: len(after.delivered) == 20)
        assert trio.current_time() - began < 10.5
        for number in range(10):
            assert texts_to(f"c{number}", after) == ["one", "two"]


async def test_a_stop_while_it_is_open_leaves_all_to_the_next_run(autojump_clock: MockClock) -> None:
    backend, channel, database = Backend(), FakeChannel(), MemoryDatabase()
    async with Runtime.open(
        backend.bot(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        await open_it(runtime, channel, backend)
        await channel.say("c", "one")
        began = trio.current_time()
    assert trio.current_time() - began < 1

    backend.error = None
    async with Runtime.open(
        backend.bot(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        await until_quiet(runtime, 1_000)
        assert texts_to("c", channel) == ["one"]


async def test_a_probe_whose_shard_restarts_is_replaced(autojump_clock: MockClock) -> None:
    """Nobody will know how it would have ended; another one tries."""
    backend, channel = Backend(), FakeChannel()
    async with Runtime.open(backend.bot(), store=open_memory(shard_count=1), adapters=[channel]) as runtime:
        await open_it(runtime, channel, backend)
        for number in range(10):
            await channel.say(f"c{number}", "one")
            await channel.say(f"c{number}", "two")
        backend.work_s = 5
        await trio.sleep(9.95)
        assert state(runtime) is CircuitState.HALF_OPEN
        assert len(backend.take()) == 1
        with crash_in(ShardInbox, "accepted", at=[1]) as crashed:
            await channel.say("new", "hi")
            await trio.sleep(0.01)
        backend.error = None
        await until_quiet(runtime, 1_000)

        assert crashed == [1]
        assert state(runtime) is CircuitState.CLOSED
        for number in range(10):
            assert texts_to(f"c{number}", channel) == ["one", "two"]


async def test_of_many_that_ask_at_once_one_is_claimed(autojump_clock: MockClock) -> None:
    """Their own waits end when the breaker's does."""
    backend, channel = Backend(), FakeChannel()
    retry = RetryPolicy(max_retries=9, base_delay_s=10, multiplier=1, jitter="none")
    async with Runtime.open(backend.bot(retry=retry), store=open_memory(), adapters=[channel]) as runtime:
        await open_it(runtime, channel, backend)
        await trio.sleep(30)

        assert runtime.status().breakers[0].opened == 3
        assert len(backend.take()) == 2
        assert runtime.counters.get("deferred", 0) == 0


async def test_messages_behind_a_lane_that_is_held_give_their_tokens_back(autojump_clock: MockClock) -> None:
    topology, channel = Topology(), FakeChannel()

    @topology.on("chat.message", retry=SLOWLY, breaker=Breaker(failures=1, open_s=100))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "slow":
            await trio.sleep(5)
            raise Permanent("x.slow")
        if message.payload.text == "bad" and ctx.failures == 0:
            raise ConnectionError("down")
        ctx.reply(message.payload.text)

    async with Runtime.open(topology, store=open_memory(), adapters=[channel], max_inflight=32) as runtime:
        for text in ("slow", "two", "three"):
            await channel.say("a", text)
        await channel.say("b", "bad")
        await trio.sleep(1)
        assert (state(runtime), runtime.status().tokens_free) == (CircuitState.OPEN, 32 - 3)
        await trio.sleep(5)
        assert runtime.status().tokens_free == 32
        await until_quiet(runtime, 1_000)
        assert texts_to("a", channel) == ["two", "three"]
        assert texts_to("b", channel) == ["bad"]


async def test_whoever_comes_to_wait_when_it_has_closed_is_woken_at_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message was deferred, and before that was on disk the circuit closed."""
    made: list[TurnBreaker] = []
    make: Callable[..., None] = vars(TurnBreaker)["__init__"]

    def note(self: TurnBreaker, *args: object, **kwargs: object) -> None:
        made.append(self)
        make(self, *args, **kwargs)

    monkeypatch.setattr(TurnBreaker, "__init__", note)
    async with Runtime.open(Backend().bot(), store=open_memory(), adapters=[FakeChannel()]):
        [breaker] = made
        woken: list[str] = []

        def wake() -> bool:
            woken.append("woken")
            return True

        breaker.wait(wake)
        assert woken == ["woken"]


async def test_many_conversations_wait_without_a_message_in_memory(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog of three hundred conversations behind an open breaker, with a window of few."""
    database, backend, channel = MemoryDatabase(), Backend(), FakeChannel()
    async with Runtime.open(
        backend.bot(), store=open_memory(database=database, shard_count=2), adapters=[channel], grace_s=0
    ) as runtime:
        await open_it(runtime, channel, backend)
        for number in range(300):
            await channel.say(f"c{number}", "one")
            await channel.say(f"c{number}", "two")
        database = database.copy()

    every: list[Lanes[LaneRow]] = []
    made: Callable[..., None] = vars(Lanes)["__init__"]

    def note(self: Lanes[LaneRow], *args: object, **kwargs: object) -> None:
        every.append(self)
        made(self, *args, **kwargs)

    monkeypatch.setattr(Lanes, "__init__", note)
    channel = FakeChannel()
    async with Runtime.open(
        backend.bot(),
        store=open_memory(database=database, shard_count=2),
        adapters=[channel],
        max_inflight=20,
    ) as runtime:
        await trio.sleep(11)
        assert state(runtime) is CircuitState.OPEN
        calls = len(backend.take())
        assert sum(len(lane.queue) for lanes in every for lane in lanes.values()) <= 2 * (20 + 64)
        await trio.sleep(9)
        # Not one more while it is open.
        assert len(backend.take()) <= 1
        assert calls < 90
        backend.error = None
        await until_quiet(runtime, 1_000)

        texts = defaultdict[str, list[str]](list)
        for out in channel.delivered:
            texts[out.address].append(out.text)
        assert [texts[f"c{number}"] for number in range(300)] == [["one", "two"]] * 300
