"""A stop at any stage of a runtime's life: while it recovers, waits, is full, or is closed already."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, RetryPolicy, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Edge, Outbound, SendOutcome
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxStatus, OutboxState
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import check_all_done, counting_bot, new_message, until_quiet


def failing_bot(wait_s: float) -> Topology:
    topology = Topology()

    @topology.on("chat.message", retry=RetryPolicy(base_delay_s=wait_s, max_delay_s=wait_s, jitter="none"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if ctx.failures == 0:
            raise ValueError("once")
        ctx.reply(message.payload.text)

    return topology


async def test_a_back_off_is_not_waited_for(autojump_clock: MockClock) -> None:
    database, channel = MemoryDatabase(), FakeChannel()
    async with Runtime.open(
        failing_bot(600), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        await channel.say("a", "hi")
        await runtime.wait_until(lambda: runtime.status().inbox[InboxStatus.FAILED] == 1)
        begun_s = trio.current_time()
    assert trio.current_time() - begun_s < 1
    assert not runtime.has_cancelled_work
    async with Runtime.open(
        failing_bot(600), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        assert runtime.info.clean
        await until_quiet(runtime, 700)
        assert [out.text for out in channel.delivered] == ["hi"]


async def test_a_stop_with_thousands_waiting_leaves_them_in_line(autojump_clock: MockClock) -> None:
    """All tokens are taken, publishers wait, one turn is under way."""
    database, channel = MemoryDatabase(), FakeChannel()
    refused: list[Code] = []
    accepted = 0

    async def publish(number: int) -> None:
        nonlocal accepted
        try:
            await runtime.publish(new_message(str(number), key=f"fake:{number % 50}"))
            accepted += 1
        except BusError as error:
            refused.append(error.code)

    async with trio.open_nursery() as nursery:
        async with Runtime.open(
            counting_bot(5), store=open_memory(database=database), adapters=[channel], max_inflight=64
        ) as runtime:
            for number in range(3_000):
                nursery.start_soon(publish, number)
            await trio.testing.wait_all_tasks_blocked()
    assert accepted + len(refused) == 3_000
    assert set(refused) <= {Code.BUS_CLOSED}
    assert not runtime.has_cancelled_work
    async with Runtime.open(
        counting_bot(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        assert runtime.info.clean
        rows = runtime.messages.list(limit=10_000)
        assert len(rows) == accepted
        assert {row.record.status for row in rows} <= {
            InboxStatus.QUEUED,
            InboxStatus.DONE,
            InboxStatus.RUNNING,
        }
        await until_quiet(runtime, 600)
        check_all_done(runtime)


async def left_by_a_crash(database: MemoryDatabase, *, sends: int) -> MemoryDatabase:
    """Four turns and some sends under way when the process died."""

    class Stuck(FakeChannel):
        async def send(self, out: Outbound) -> SendOutcome:
            await trio.sleep(80_000)
            return await super().send(out)

    channel = Stuck(caps=ChannelCaps(send_timeout_s=1e6))
    topology = Topology()

    @topology.on("chat.message", timeout_s=1e6)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "stuck":
            await trio.sleep_forever()
        ctx.reply(message.payload.text)

    async with Runtime.open(
        topology, store=open_memory(database=database), adapters=[channel], grace_s=0
    ) as runtime:
        for number in range(sends):
            await channel.say(f"sent-{number}", "hi", platform_message_id=f"s{number}")
        for number in range(4):
            await channel.say(f"stuck-{number}", "stuck", platform_message_id=f"m{number}")
        await trio.testing.wait_all_tasks_blocked()
        assert runtime.status().running_turns == 4
        return database.copy()


async def test_the_start_after_a_crash_tells_what_was_left_and_what_waits_for_a_person(
    autojump_clock: MockClock,
) -> None:
    left = await left_by_a_crash(MemoryDatabase(), sends=3)
    left = await left_by_a_crash(left, sends=0)
    told: list[list[dict[str, object]]] = []
    for _ in range(2):
        with capture_logs() as log:
            async with Runtime.open(
                counting_bot(), store=open_memory(database=left), adapters=[FakeChannel()]
            ) as runtime:
                await until_quiet(runtime)
                assert runtime.status().outbox[OutboxState.UNCERTAIN] == 3
        names = {"runtime.recovered", "outbox.found_uncertain"}
        told.append([dict(event) for event in log if event["event"] in names])
    waits = {
        "event": "outbox.found_uncertain", "log_level": "warning", "uncertain": 3,
        "look": "shardline outbox list state=uncertain",
    }  # fmt: skip
    recovered = {
        "event": "runtime.recovered", "log_level": "warning", "claimed": 4, "requeued": 4, "suspects": 4,
        "crash_looped": 0, "flying": 0,
    }  # fmt: skip

    assert told == [[recovered, waits], [waits]]


async def test_a_stop_while_it_recovers_is_a_stop(autojump_clock: MockClock) -> None:
    left = await left_by_a_crash(MemoryDatabase(), sends=2)
    with trio.CancelScope() as scope:
        scope.cancel()
        async with Runtime.open(counting_bot(), store=open_memory(database=left), adapters=[FakeChannel()]):
            raise AssertionError("cancelled before it could begin")
    channel = FakeChannel()
    async with Runtime.open(counting_bot(), store=open_memory(database=left), adapters=[channel]) as runtime:
        await until_quiet(runtime)
        rows = runtime.messages.list()
        assert {row.record.status for row in rows} == {InboxStatus.DONE}
        assert max(row.record.crashes for row in rows) == 0
        assert sorted(out.address for out in channel.delivered) == [f"stuck-{number}" for number in range(4)]


async def test_stopping_and_closing_twice_is_fine(autojump_clock: MockClock, tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "bot.db", mode="inline")
    async with Runtime.open(counting_bot(), store=store) as runtime:
        runtime.request_stop()
        await runtime.serve()
        await runtime.serve()
    runtime.request_stop()
    await runtime.serve()
    store.close()
    store.close()
    with pytest.raises(BusError) as closed:
        await runtime.publish(new_message("late"))
    assert closed.value.code is Code.BUS_CLOSED
    async with Runtime.open(counting_bot(), store=tmp_path / "bot.db", mode="inline") as again:
        assert again.info.clean


async def test_an_adapter_that_takes_its_time_to_end_is_waited_for_a_second(
    autojump_clock: MockClock,
) -> None:
    """What it still reads then is refused; nobody waits for it."""

    class Slow(FakeChannel):
        ended_s = 0.0

        async def run(
            self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
        ) -> None:
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(3)
                self.ended_s = trio.current_time()

    slow, codes = Slow(), list[Code | None]()

    async def publish_at(after_s: float) -> None:
        await trio.sleep(after_s)
        try:
            await runtime.publish(new_message("hi", key="fake:other"))
            codes.append(None)
        except BusError as error:
            codes.append(error.code)

    async with trio.open_nursery() as nursery:
        async with Runtime.open(counting_bot(), store=open_memory(), adapters=[slow], grace_s=10) as runtime:
            await trio.testing.wait_all_tasks_blocked()
            begun_s = trio.current_time()
            nursery.start_soon(publish_at, 0.5)
            nursery.start_soon(publish_at, 1.5)
        assert trio.current_time() - begun_s == pytest.approx(3, abs=0.1)
    assert codes == [None, Code.BUS_CLOSED]
    assert not runtime.has_cancelled_work
    assert slow.ended_s - begun_s == pytest.approx(3, abs=0.1)
