"""Many timers at once, those who wait beside them, and what a crash of their actor or of a shard leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.actors.clock import FakeClock, SystemClock
from shardline.runtime.defaults import TIMER_BATCH
from shardline.runtime.shard_inbox import ShardInbox
from shardline.runtime.timer import TimerActor
from shardline.storage.commands import Commit, NewTimer
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.port import Store
from shardline.storage.records import InboxStatus, StoredTimer, TimerContent, TimerRecord
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import until_quiet
from tests.kits.crashes import Injected, crash_in
from tests.kits.stores import running


def timer_of(number: int, key: str, shard: int, due_us: int) -> NewTimer:
    record = TimerRecord(
        id=f"timer-{shard}-0-0-{number}",
        shard=shard,
        kind="message",
        topic="chat.message",
        partition=shard,
        conversation_key=key,
        due_at_us=due_us,
        created_at_us=due_us,
    )
    return NewTimer(record=record, content=TimerContent(payload=f"timer {number}", causation_id="c", hops=1))


async def set_many(store: Store, count: int, due_us: int, *, conversations: int = 500) -> None:
    """Set timers that are all due at the same time."""
    async with running(store) as hand:
        writes: dict[int, list[NewTimer]] = {}
        for number in range(count):
            key = f"fake:t{number % conversations}"
            shard = hand.shard(key)
            writes.setdefault(shard, []).append(timer_of(number, key, shard, due_us))
        for shard, timers in writes.items():
            await hand.store.commit(hand.commit(shard, timers=tuple(timers)))


def said(channel: FakeChannel) -> int:
    """How many answers the person has."""
    return sum(out.address == "person" for out in channel.delivered)


def talking_bot() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


async def test_thousands_at_once_come_in_batches_and_let_others_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    count = 5_000
    sizes: list[int] = []
    fired = TimerActor._fired  # pyright: ignore[reportPrivateUsage] (what is watched)

    def watch(self: TimerActor, due: Sequence[StoredTimer], now_us: int) -> list[Commit]:
        commits = fired(self, due, now_us)
        sizes.extend(len(commit.timers) for commit in commits)
        assert len(due) <= TIMER_BATCH
        return commits

    monkeypatch.setattr(TimerActor, "_fired", watch)
    await set_many(open_sqlite(tmp_path / "bot.db", durability="normal"), count, SystemClock().wall_us())
    channel = FakeChannel()
    async with Runtime.open(
        talking_bot(), store=tmp_path / "bot.db", durability="normal", adapters=[channel], max_inflight=256
    ) as runtime:
        with trio.fail_after(50):
            for number in range(3):
                await channel.say("person", str(number))
                await runtime.wait_until(lambda: said(channel) == number + 1)  # noqa: B023 (waited for here)
            done = runtime.status().inbox[InboxStatus.DONE]
            await runtime.wait_until(lambda: runtime.is_quiet)
        status = runtime.status()

    # Who talks does not wait for the last of the timers.
    assert done < count
    assert (sum(sizes), max(sizes) <= TIMER_BATCH) == (count, True)
    assert status.timers == 0
    assert status.inbox[InboxStatus.DONE] == count + 3
    for conversation in range(500):
        texts = [out.text for out in channel.delivered if out.address == f"t{conversation}"]
        assert sorted(texts) == sorted(f"timer {number}" for number in range(conversation, count, 500))


@pytest.mark.parametrize("emits", ["atomic", "relayed"])
async def test_a_store_that_relays_emits_fires_once_too(
    emits: Literal["atomic", "relayed"], autojump_clock: MockClock
) -> None:
    topology = Topology()

    @topology.on("chat.message")
    async def poke(ctx: Context, message: BusMessage) -> None:
        if message.causation_id is not None:
            ctx.reply(message.payload.text)
            return
        names = [ctx.schedule(str(n), after_s=5, key=f"fake:{n}") for n in range(20)]
        ctx.state["names"] = list(names)

    clock, channel = FakeClock(), FakeChannel()
    store = open_memory(clock=clock, emits=emits)
    async with Runtime.open(topology, store=store, adapters=[channel], clock=clock) as runtime:
        await channel.say("go", "go")
        await until_quiet(runtime)
        assert runtime.status().timers == 20
        await trio.sleep(5)
        await until_quiet(runtime)
    assert sorted(int(out.text) for out in channel.delivered) == list(range(20))


@pytest.mark.parametrize(("owner", "method"), [(TimerActor, "_fired"), (TimerActor, "_move")])
async def test_a_crash_of_the_actor_fires_none_twice_and_loses_none(
    owner: type[TimerActor], method: str, autojump_clock: MockClock
) -> None:
    clock, channel, database = FakeClock(), FakeChannel(), MemoryDatabase()
    await set_many(open_memory(clock=clock, database=database), 600, clock.wall_us())
    with capture_logs() as logs, crash_in(owner, method, at=(2,)):
        async with Runtime.open(
            talking_bot(), store=open_memory(clock=clock, database=database), adapters=[channel], clock=clock
        ) as runtime:
            await until_quiet(runtime)
    crashed = [log for log in logs if log["event"] == "actor.crashed"]
    assert [(log["actor"], log["error_type"]) for log in crashed] == [("timer", Injected.__name__)]
    assert sorted(out.text for out in channel.delivered) == sorted(f"timer {n}" for n in range(600))


async def test_a_shard_that_begins_anew_keeps_its_timers(autojump_clock: MockClock) -> None:
    clock, channel, database = FakeClock(), FakeChannel(), MemoryDatabase()
    await set_many(open_memory(clock=clock, database=database), 600, clock.wall_us())
    with capture_logs(), crash_in(ShardInbox, "turn_ended", at=(1, 40)):
        async with Runtime.open(
            talking_bot(), store=open_memory(clock=clock, database=database), adapters=[channel], clock=clock
        ) as runtime:
            await until_quiet(runtime)
            assert runtime.status().inbox[InboxStatus.DONE] == 600
    assert sorted(out.text for out in channel.delivered) == sorted(f"timer {n}" for n in range(600))


async def test_one_whose_zone_is_unknown_here_fires_and_ends(autojump_clock: MockClock) -> None:
    clock, channel, database = FakeClock(), FakeChannel(), MemoryDatabase()
    async with running(open_memory(clock=clock, database=database)) as hand:
        new = timer_of(1, "fake:1", hand.shard("fake:1"), clock.wall_us())
        record = TimerRecord(
            id=new.record.id,
            shard=new.record.shard,
            kind="message",
            topic="chat.message",
            partition=new.record.shard,
            conversation_key="fake:1",
            due_at_us=new.record.due_at_us,
            rule="30 2 * * *",
            zone="Europe/Atlantis",
        )
        await hand.set_timer(NewTimer(record=record, content=new.content))
    with capture_logs() as logs:
        async with Runtime.open(
            talking_bot(), store=open_memory(clock=clock, database=database), adapters=[channel], clock=clock
        ) as runtime:
            await until_quiet(runtime)
            assert runtime.timers.list() == []
    assert [out.text for out in channel.delivered] == ["timer 1"]
    [log] = [log for log in logs if log["event"] == "timer.ended"]
    assert (log["zone"], log["bus_error_code"]) == ("Europe/Atlantis", Code.INVALID_MESSAGE)
    [log] = [log for log in logs if log["event"] == "timers.loaded"]
    assert (log["count"], log["late"]) == (1, True)


async def test_cancelled_on_a_live_runtime_it_does_not_fire(autojump_clock: MockClock) -> None:
    clock, channel = FakeClock(), FakeChannel()
    store = open_memory(clock=clock)
    topology = Topology()

    @topology.on("chat.message")
    async def later(ctx: Context, message: BusMessage) -> None:
        if message.causation_id is None:
            ctx.schedule("later", after_s=5)
        else:
            ctx.reply("fired")

    async with Runtime.open(topology, store=store, adapters=[channel], clock=clock) as runtime:
        await channel.say("1", "go")
        await until_quiet(runtime)
        [timer] = runtime.timers.list(key="fake:1", topic="chat.message")
        assert runtime.timers.list(key="fake:2") == []
        await runtime.timers.cancel(timer.record.id)
        with pytest.raises(BusError) as caught:
            await runtime.timers.cancel(timer.record.id)
        assert caught.value.code is Code.NOT_FOUND
        await trio.sleep(10)
        await until_quiet(runtime)
    assert channel.delivered == []
