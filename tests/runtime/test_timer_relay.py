"""A cancel from another shard while the timer it means is still on its way to its home."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager

import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, ScheduleId, Topology, shard_of
from shardline.actors.clock import FakeClock
from shardline.runtime.relay import Relay
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.testing import FakeChannel
from tests.kits.bots import until_quiet

SHARDS = 8


def in_shard(shard: int) -> str:
    """An address whose conversation is at home there."""
    numbers: Iterator[int] = iter(range(10_000))
    return next(str(n) for n in numbers if shard_of(f"fake:{n}", SHARDS) == shard)


HOME = in_shard(3)


def bot() -> tuple[Topology, list[ScheduleId], list[bool]]:
    topology = Topology()
    names: list[ScheduleId] = []
    answers: list[bool] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        match message.payload.text:
            case "set":
                names.append(ctx.schedule("ring", after_s=5, key=f"fake:{HOME}"))
            case "cancel":
                answers.append(ctx.cancel(names[0]))
            case text:
                ctx.reply(text)

    return topology, names, answers


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(("setter", "canceller"), [(5, 1), (1, 5), (5, 3), (1, 3), (5, 5)])
async def test_a_cancel_never_comes_before_what_it_cancels(
    setter: int, canceller: int, killed: bool, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    topology, names, answers = bot()
    clock, channel, database = FakeClock(), FakeChannel(), MemoryDatabase()

    def open_runtime() -> AbstractAsyncContextManager[Runtime]:
        store = open_memory(clock=clock, database=database, emits="relayed", shard_count=SHARDS)
        return Runtime.open(topology, store=store, adapters=[channel], clock=clock)

    async with open_runtime() as runtime:
        with monkeypatch.context() as patch:
            # The relay sleeps until both turns are on disk.
            told: list[tuple[Relay, int]] = []

            def asleep(relay: Relay, shard: int) -> None:
                told.append((relay, shard))

            patch.setattr(Relay, "nudge", asleep)
            await channel.say(in_shard(setter), "set")
            await until_quiet(runtime)
            assert len(names) == 1
            await channel.say(in_shard(canceller), "cancel")
            await until_quiet(runtime)
        assert answers == [True]
        if not killed:
            for relay, shard in told:
                relay.nudge(shard)
            await until_quiet(runtime)
    async with open_runtime() as runtime:
        await until_quiet(runtime)
        assert runtime.status().timers == 0
        await trio.sleep(10)
        await until_quiet(runtime)
    assert channel.delivered == []
