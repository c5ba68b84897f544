"""Cancelled at any pass of the loop: an opening, a call, a close. Nothing is left, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from shardline import BusError, BusMessage, Runtime
from shardline.asyncio import AsyncioContext, AsyncioRuntime, open_runtime, runtime
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel
from tests.kits.bots import check_all_done, counting_bot, new_message
from tests.kits.hosts import counting_host_bot, host_bot, in_asyncio


async def cancelled_after(passes: int, call: Awaitable[object]) -> bool:
    """Cancel a call after so many passes of the loop; whether it was still under way."""
    task = asyncio.ensure_future(call)
    for _ in range(passes):
        if task.done():
            break
        await asyncio.sleep(0)
    was_under_way = task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        assert was_under_way
    return was_under_way


def test_a_cancelled_opening_leaves_nothing(tmp_path: Path) -> None:
    async def open_it() -> None:
        async with runtime(counting_host_bot(), store=tmp_path / "bot.db", adapters=[FakeChannel()]):
            await asyncio.sleep(0)

    async def main() -> int:
        passes = 0
        while await cancelled_after(passes, open_it()):
            assert not trio.lowlevel.in_trio_run()
            passes += 1 + passes // 6
        return passes

    assert in_asyncio(main, limit_s=50) > 3


def test_cancelled_publishes_are_stored_once_or_not_at_all() -> None:
    async def main() -> None:
        channel, stopped = FakeChannel(), 0
        async with runtime(counting_host_bot(), store=open_memory(), adapters=[channel]) as bot:
            for passes in range(200):
                message = new_message(str(passes), key=f"fake:{passes}", idem=str(passes))
                stopped += await cancelled_after(passes % 25, bot.publish(message, wait="handled"))
                # Whoever was cancelled publishes again with the same key.
                assert (await bot.publish(message, wait="handled")).status == "done"
            await bot.wait_quiet()
            check_all_done(bot.native)
        assert stopped > 50
        assert sorted(out.text for out in channel.delivered) == sorted(f"1: {n}" for n in range(200))

    in_asyncio(main)


@pytest.mark.parametrize("verb", ["serve", "wait_drained", "wait_quiet"])
def test_a_cancelled_wait_lets_the_runtime_go_on(verb: str) -> None:
    async def main() -> None:
        async with runtime(counting_host_bot(), store=open_memory(), adapters=[FakeChannel()]) as bot:
            waits: dict[str, Callable[[], Awaitable[object]]] = {
                "serve": bot.serve, "wait_drained": bot.wait_drained, "wait_quiet": bot.wait_quiet
            }  # fmt: skip
            for passes in range(12):
                await cancelled_after(passes, waits[verb]())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await bot.wait_drained()
            assert (await bot.publish(new_message("on"), wait="handled")).status == "done"

    in_asyncio(main)


def test_a_cancelled_close_ends_all_the_same(tmp_path: Path) -> None:
    async def hold(ctx: AsyncioContext, message: BusMessage) -> None:
        await asyncio.sleep(3_600)

    async def opened(store: Path) -> AsyncioRuntime:
        bot = await open_runtime(host_bot(hold), store=store, adapters=[FakeChannel()], grace_s=60)
        await bot.publish(new_message("hi"))
        return bot

    async def main() -> None:
        for passes in (1, 2, 3, 5, 10, 20, 40):
            store = tmp_path / f"{passes}.db"
            bot = await opened(store)
            assert await cancelled_after(passes, bot.close())
            await bot.close()
            assert not trio.lowlevel.in_trio_run()
            assert bot.has_cancelled_work

    in_asyncio(main, limit_s=50)
    trio.run(check_released, sorted(tmp_path.glob("*.db")))


async def check_released(stores: list[Path]) -> None:
    """The claims are back on disk: a clean stop, and nothing counted."""
    for store in stores:
        async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()]) as native:
            assert native.info.clean
            await native.wait_until(lambda: native.is_quiet)
            (row,) = native.messages.list()
            assert (row.record.status, row.record.crashes, row.record.failures) == (InboxStatus.DONE, 0, 0)


def test_a_cancelled_block_stops_in_good_order() -> None:
    database, channel = MemoryDatabase(), FakeChannel()

    async def serve() -> None:
        store = open_memory(database=database)
        async with runtime(counting_host_bot(), store=store, adapters=[channel]) as bot:
            for number in range(100):
                await bot.publish(new_message(str(number), key=f"fake:{number}"))
            await bot.serve()

    async def main() -> None:
        for passes in (0, 5, 50, 500):
            await cancelled_after(passes, serve())
            assert not trio.lowlevel.in_trio_run()
        async with runtime(
            counting_host_bot(), store=open_memory(database=database), adapters=[channel]
        ) as bot:
            await bot.wait_quiet()
            assert bot.info.clean
            check_all_done(bot.native)
            assert len(channel.delivered) == len(bot.native.messages.list(limit=1_000))

    in_asyncio(main)


def test_a_handler_that_swallows_its_cancellation_holds_a_stop_up_for_a_bounded_time() -> None:
    left: list[asyncio.Task[object]] = []
    begun = asyncio.Event()

    async def deaf(ctx: AsyncioContext, message: BusMessage) -> None:
        task = asyncio.current_task()
        assert task is not None
        left.append(task)
        begun.set()
        while True:
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                if left.count(task) == 2:
                    raise
                left.append(task)

    async def main() -> None:
        bot = await open_runtime(host_bot(deaf), store=open_memory(), adapters=[FakeChannel()], grace_s=60)
        await bot.publish(new_message("hi"))
        await begun.wait()
        began_s = asyncio.get_running_loop().time()
        bot.request_stop()
        bot.request_stop()
        await bot.close()
        assert asyncio.get_running_loop().time() - began_s < 30  # of a grace time of 60
        assert not trio.lowlevel.in_trio_run()
        # It is still there; asyncio.run will cancel it once more.
        assert not left[0].done()

    in_asyncio(main)


def test_a_group_of_tasks_that_fails_takes_its_publishers_and_the_block_with_it() -> None:
    database = MemoryDatabase()

    async def fail_soon() -> None:
        await asyncio.sleep(0.01)
        raise ValueError("of the group")

    async def publish_on(bot: AsyncioRuntime) -> None:
        number = 0
        while True:
            number += 1
            await bot.publish(new_message(str(number)))

    async def main() -> None:
        store = open_memory(database=database)
        async with runtime(counting_host_bot(), store=store, adapters=[FakeChannel()]) as bot:
            async with asyncio.TaskGroup() as group:
                group.create_task(publish_on(bot))
                group.create_task(bot.serve())
                group.create_task(fail_soon())

    with pytest.raises(ExceptionGroup) as caught:
        in_asyncio(main)
    assert caught.group_contains(ValueError, match="of the group")
    assert not caught.group_contains(BusError)
