"""A hundred thousand timers: set, kept over a restart, fired once each in the order of their times, in flat memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.clock import SystemClock
from shardline.runtime.collector import calm_collector
from shardline.storage.records import InboxStatus
from shardline.storage.sqlite import open_sqlite
from tests.kits.idle import rss_bytes
from tests.kits.stores import running
from tests.runtime.test_timer_load import timer_of

COUNT = 100_000
CONVERSATIONS = 2_000
MIB = 1 << 20


@pytest.mark.long
async def test_a_hundred_thousand_timers_fire_in_order_after_a_restart(tmp_path: Path) -> None:
    calm_collector()
    path, begin_us = tmp_path / "bot.db", SystemClock().wall_us() - COUNT
    async with running(open_sqlite(path, durability="normal")) as hand:
        writes: dict[int, list[int]] = {}
        for number in range(COUNT):
            writes.setdefault(hand.shard(f"fake:t{number % CONVERSATIONS}"), []).append(number)
        for shard, numbers in writes.items():
            for at in range(0, len(numbers), 2_000):
                timers = tuple(
                    # A microsecond apart, and set in another order than they are due in.
                    timer_of(number, f"fake:t{number % CONVERSATIONS}", shard, begin_us + COUNT - number)
                    for number in numbers[at : at + 2_000]
                )
                await hand.store.commit(hand.commit(shard, timers=timers))
    topology, last, handled = Topology(), dict[str, int](), 0

    @topology.on("chat.message")
    async def note(ctx: Context, message: BusMessage) -> None:
        nonlocal handled
        number = int(message.payload.text.removeprefix("timer "))
        # Of one conversation the one with the highest number is due first.
        assert number < last.get(message.conversation_key, COUNT)
        last[message.conversation_key] = number
        handled += 1

    async with Runtime.open(topology, store=path, durability="normal") as runtime:
        with trio.fail_after(120):
            await runtime.wait_until(lambda: handled >= 5_000)
    # Stopped in the middle: what has fired has fired, the rest is set.
    assert handled < COUNT
    async with Runtime.open(topology, store=path, durability="normal") as runtime:
        assert 0 < runtime.status().timers < COUNT
        before = rss_bytes()
        with trio.fail_after(280):
            await runtime.wait_until(lambda: runtime.is_quiet and handled >= COUNT)
        status = runtime.status()
        assert (status.timers, status.inbox[InboxStatus.DONE], handled) == (0, COUNT, COUNT)
        assert rss_bytes() - before < 60 * MIB
    assert set(last.values()) == set(range(CONVERSATIONS))
