"""More work than there is room for: nothing is lost, order holds, memory stays a window, and nobody waits for ever."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from shardline import BusMessage, Context, RetryPolicy, Runtime, Topology
from shardline.runtime.lane_row import LaneRow
from shardline.runtime.lanes import Lanes
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxStatus
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import check_all_done, check_counted, counting_bot, new_message, texts_to, until_quiet


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("emits", ["atomic", "relayed"])
async def test_one_token_and_handlers_that_publish_do_not_lock_each_other(
    autojump_clock: MockClock, tmp_path: Path, emits: Literal["atomic", "relayed"], kind: str
) -> None:
    """`max_inflight=1`: `ctx.publish` and `runtime.publish` inside a turn, to the own conversation and to others."""
    topology = Topology()
    channel = FakeChannel("fake")
    others = [f"fake:other-{n}" for n in range(10)]

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "start":
            await runtime.publish(new_message("direct", key=message.conversation_key))
            for other in others:
                ctx.publish("chat.message", "poke", key=other)
                await runtime.publish(new_message("direct", key=other))
            ctx.publish("chat.message", "poke")
        ctx.reply(message.payload.text)

    path = tmp_path / "bot.db"
    store = open_memory(emits=emits) if kind == "memory" else open_sqlite(path, mode="inline", emits=emits)
    async with Runtime.open(topology, store=store, adapters=[channel], max_inflight=1) as runtime:
        for address in ("a", "b", "c"):
            await channel.say(address, "start")
        await until_quiet(runtime)

        check_all_done(runtime, max_inflight=1)
        for address in ("a", "b", "c"):
            # What was published at once is stored before the turn ends, what the turn decided with it.
            assert texts_to(address, channel) == ["start", "direct", "poke"]
        for other in others:
            assert sorted(texts_to(other.removeprefix("fake:"), channel)) == ["direct"] * 3 + ["poke"] * 3


async def test_waiting_edges_get_their_token_in_the_order_they_came(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake")
    async with Runtime.open(
        counting_bot(work_s=0.1), store=open_memory(), adapters=[channel], max_inflight=1
    ) as runtime:
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(channel.say, f"c{number:02}", "hi")
                await trio.testing.wait_all_tasks_blocked(0.001)
        await until_quiet(runtime)

        assert [out.address for out in channel.delivered] == [f"c{number:02}" for number in range(20)]
        check_all_done(runtime, max_inflight=1)


async def test_who_waited_for_a_token_holds_no_more_than_the_share_of_a_conversation(
    autojump_clock: MockClock,
) -> None:
    """All wait for the tokens of others; one conversation must not get them all when they come free."""
    go, late = trio.Event(), trio.Event()
    topology = Topology()

    @topology.on("chat.message", timeout_s=float("inf"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        await (go if message.payload.text == "first" else late).wait()

    async with Runtime.open(topology, store=open_memory(), max_inflight=8) as runtime:
        async with trio.open_nursery() as nursery:
            for number in range(8):
                await runtime.publish(new_message("first", key=f"fake:{number}"))
            for _ in range(8):
                nursery.start_soon(runtime.publish, new_message("flood", key="fake:flood"))
            await trio.testing.wait_all_tasks_blocked()
            assert runtime.status().tokens_free == 0
            go.set()
        await trio.testing.wait_all_tasks_blocked()

        # Eight of eight would leave no room for anybody else; the share of one conversation is one.
        assert runtime.status().tokens_free == 7
        late.set()
        await until_quiet(runtime)
        assert runtime.status().tokens_free == 8


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))]
)
@pytest.mark.parametrize("max_inflight", [1, 4])
@pytest.mark.parametrize("emits", ["atomic", "relayed"])
async def test_a_storm_of_publishes_through_a_small_window_loses_nothing_and_keeps_order(
    autojump_clock: MockClock, emits: Literal["atomic", "relayed"], max_inflight: int, seed: int
) -> None:
    """Edges and other homes write into the same conversations while there is room for hardly a row."""
    dice = random.Random(seed)
    topology = Topology()
    channel = FakeChannel("fake")

    @topology.on("chat.message", concurrency=3)
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.sleep(dice.choice((0, 0.001, 0.01)))
        if message.hops < 2:
            for _ in range(2):
                ctx.publish("chat.message", "poke", key=f"fake:c{dice.randrange(12)}")
        ctx.reply(message.id)

    store = open_memory(shard_count=2, emits=emits)
    async with Runtime.open(topology, store=store, adapters=[channel], max_inflight=max_inflight) as runtime:
        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(channel.say, f"c{dice.randrange(12)}", f"text {number}")
                if dice.random() < 0.2:
                    await trio.sleep(0.002)
        await until_quiet(runtime, 600)

        check_all_done(runtime, max_inflight=max_inflight)
        assert len(channel.delivered) == 60 + 120 + 240
        check_handled_by_seq(runtime, channel)


def check_handled_by_seq(runtime: Runtime, channel: FakeChannel) -> None:
    """Each conversation was answered in the order in which its messages came to be on disk."""
    by_key: dict[str, list[str]] = defaultdict(list)
    for row in sorted(runtime.messages.list(limit=10_000), key=lambda row: row.record.seq):
        by_key[row.record.conversation_key].append(row.message.id)
    for key, ids in by_key.items():
        assert texts_to(key.removeprefix("fake:"), channel) == ids


async def test_a_message_accepted_right_behind_one_from_another_home_waits_for_it(
    autojump_clock: MockClock,
) -> None:
    """Its claim rode along, for nobody knew yet of the other one, which is in the same transaction before it."""
    topology = Topology()
    channel = FakeChannel("fake")

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "start":
            target = message.conversation_key.replace("from", "to")
            ctx.publish("chat.message", "poke", key=target)
            runtime_nursery.start_soon(channel.say, target.removeprefix("fake:"), "said")
        ctx.reply(message.id)

    async with (
        Runtime.open(topology, store=open_memory(), adapters=[channel]) as runtime,
        trio.open_nursery() as runtime_nursery,
    ):
        for number in range(64):
            await channel.say(f"from-{number}", "start")
        await until_quiet(runtime)

        check_all_done(runtime)
        check_handled_by_seq(runtime, channel)
        claims = [row.record.claim for row in runtime.messages.list(limit=1000)]
        # Some were handed back: their claim is the second one.
        assert set(claims) == {1, 2}


@pytest.mark.parametrize("seed", range(4))
async def test_sends_of_other_homes_and_own_replies_go_out_in_the_order_of_their_rows(
    autojump_clock: MockClock, seed: int
) -> None:
    """A reply whose start rode along behind a send of another home is taken back: no byte has left."""
    dice = random.Random(seed)
    topology = Topology()
    channel = FakeChannel("fake")

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.sleep(dice.choice((0, 0.001)))
        for number in range(3):
            target = f"fake:c{dice.randrange(8)}"
            ctx.send("fake", target, f"{message.id} {number}", idempotency_key=f"{message.id} {number}")
        ctx.reply(message.id)

    async with Runtime.open(
        topology, store=open_memory(shard_count=4), adapters=[channel], max_inflight=8
    ) as runtime:
        async with trio.open_nursery() as nursery:
            for number in range(80):
                nursery.start_soon(channel.say, f"c{number % 8}", "hi")
        await until_quiet(runtime, 600)

        check_all_done(runtime, max_inflight=8)
        rows = sorted(runtime.outbox.list(limit=1_000), key=lambda row: row.record.seq)
        assert len(rows) == len(channel.delivered) == 320
        for conversation in range(8):
            stored = [
                row.content.text for row in rows if row.record.conversation_key == f"fake:c{conversation}"
            ]
            assert texts_to(f"c{conversation}", channel) == stored
        assert {row.record.attempts for row in rows} == {1}
        assert {row.record.claim for row in rows} == {1, 2}


# --- a backlog -----------------------------------------------------------------------------------------------

CONVERSATIONS = 200
EACH = 15


async def leave_backlog(database: MemoryDatabase) -> dict[str, list[str]]:
    """Accept messages whose handlers never end, and stop: they are all on disk."""
    channel = FakeChannel("fake")
    said: dict[str, list[str]] = defaultdict(list)
    async with Runtime.open(
        counting_bot(work_s=3_600),
        store=open_memory(database=database),
        adapters=[channel],
        max_inflight=100_000,
        grace_s=0,
    ):
        async with trio.open_nursery() as nursery:
            for conversation in range(CONVERSATIONS):
                nursery.start_soon(say_each, channel, f"c{conversation}", said)
    return said


async def say_each(channel: FakeChannel, address: str, said: dict[str, list[str]]) -> None:
    for number in range(EACH):
        said[address].append(f"text {number}")
        await channel.say(address, f"text {number}")


async def test_a_backlog_is_worked_off_in_order_through_a_window(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = MemoryDatabase()
    said = await leave_backlog(database)
    every: list[Lanes[LaneRow]] = []
    made: Callable[..., None] = vars(Lanes)["__init__"]

    def note(self: Lanes[LaneRow], *args: object, **kwargs: object) -> None:
        every.append(self)
        made(self, *args, **kwargs)

    monkeypatch.setattr(Lanes, "__init__", note)
    most, handled, fresh_after = 0, 0, 0
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        nonlocal most, handled, fresh_after
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        most = max(most, sum(lanes.held_rows for lanes in every))
        handled += 1
        if message.payload.text == "fresh":
            fresh_after = handled
        await trio.sleep(0.01)
        ctx.reply(f"{turns + 1}: {message.payload.text}")

    channel = FakeChannel("fake")
    async with Runtime.open(
        topology, store=open_memory(database=database), adapters=[channel], max_inflight=160
    ) as runtime:
        assert sum(runtime.status().inbox.values()) == CONVERSATIONS * EACH
        assert runtime.status().inbox[InboxStatus.DONE] == 0
        await channel.say("fresh", "fresh")
        await until_quiet(runtime, 600)

        check_counted({**said, "fresh": ["fresh"]}, channel)
        check_all_done(runtime, max_inflight=160)
        assert {lanes.held_rows for lanes in every} == {0}
    # Ten rows a shard, for messages and for sends; a page of eight may start below that, two side by side.
    assert most <= 2 * 16 * (10 + 2 * 8)
    assert 0 < fresh_after < CONVERSATIONS * EACH / 4
    assert handled == CONVERSATIONS * EACH + 1


async def test_a_lane_in_back_off_holds_no_token(autojump_clock: MockClock) -> None:
    """Field entry 23: messages behind a failed one wait on disk; the edges go on."""
    channel = FakeChannel("fake")
    topology = Topology()

    @topology.on("chat.message", retry=RetryPolicy(max_retries=5, base_delay_s=100, jitter="none"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "bad" and ctx.failures == 0:
            raise ValueError("once")
        ctx.reply(message.payload.text)

    async with Runtime.open(topology, store=open_memory(), adapters=[channel], max_inflight=8) as runtime:
        for number in range(8):
            await channel.say(f"stuck-{number}", "bad")
            await channel.say(f"stuck-{number}", "behind")
        await trio.sleep(1)
        assert runtime.status().tokens_free == 8

        began = trio.current_time()
        for number in range(50):
            await channel.say("good", f"text {number}")
        await runtime.wait_until(lambda: len(texts_to("good", channel)) == 50)
        assert trio.current_time() - began < 1
        await until_quiet(runtime, 1_000)
        for number in range(8):
            assert texts_to(f"stuck-{number}", channel) == ["bad", "behind"]
        assert runtime.status().tokens_free == 8
