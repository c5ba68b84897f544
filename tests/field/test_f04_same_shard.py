"""F4: fixed shards bring the blocking back. Here a shard owns conversations; it does not make them wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology, shard_of
from shardline.actors.clock import FakeClock
from shardline.storage.records import InboxStatus
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel

QUEUED = 10_000


def blocking_bot(blocked: Callable[[], bool], handled: list[str]) -> Topology:
    topology = Topology()

    @topology.on("chat.message", channel="telegram", timeout_s=float("inf"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.conversation_key == "tg:1001" and blocked():
            await trio.sleep_forever()
        handled.append(message.conversation_key)

    return topology


async def test_f04_a_blocked_chat_keeps_no_other_of_its_shard(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """`tg:1001` and `tg:1009` are on one shard of 8; with the first blocked the second is handled within 200 ms."""
    assert shard_of("tg:1001", 8) == shard_of("tg:1009", 8)
    handled: list[str] = []
    channel, clock = FakeChannel("telegram"), FakeClock()
    store = open_sqlite(tmp_path / "bot.db", mode="inline", durability="normal", shard_count=8, clock=clock)
    async with Runtime.open(
        blocking_bot(lambda: True, handled), store=store, adapters=[channel], clock=clock, grace_s=0
    ) as runtime:
        await channel.say("1001", "block")
        await trio.sleep(1)
        assert runtime.status().running_turns == 1
        await channel.say("1009", "hello")
        with trio.fail_after(0.2):
            await runtime.wait_until(lambda: handled == ["tg:1009"])

        assert runtime.status().oldest_turns[0].conversation_key == "tg:1001"


async def test_f04_one_message_passes_ten_thousand_of_another_chat(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """10,000 are queued in `tg:1001`, then one in `tg:1002`: it is handled before the 100th of them."""
    handled: list[str] = []
    is_blocked = True
    topology = blocking_bot(lambda: is_blocked, handled)
    path, clock = tmp_path / "bot.db", FakeClock()

    channel = FakeChannel("telegram")
    store = open_sqlite(path, mode="inline", durability="normal", shard_count=8, clock=clock)
    async with Runtime.open(topology, store=store, adapters=[channel], clock=clock, grace_s=0) as runtime:
        await channel.say("1001", "block")
        await trio.sleep(1)
        assert runtime.status().running_turns == 1
        async with trio.open_nursery() as nursery:
            for _ in range(QUEUED):
                nursery.start_soon(channel.say, "1001", "more")
        await channel.say("1002", "hello")
        await runtime.wait_until(lambda: "tg:1002" in handled)
        assert runtime.status().inbox[InboxStatus.QUEUED] == QUEUED
        assert handled == ["tg:1002"]

    # And where both wait on disk: the next process meets them together.
    is_blocked = False
    handled.clear()
    clock = FakeClock()
    store = open_sqlite(path, mode="inline", durability="normal", shard_count=8, clock=clock)
    async with Runtime.open(topology, store=store, adapters=[channel], clock=clock) as runtime:
        await channel.say("1002", "hello")
        with trio.fail_after(600):
            await runtime.wait_until(lambda: runtime.is_quiet)

    assert handled.count("tg:1001") == QUEUED + 1
    assert handled.index("tg:1002") < 100
