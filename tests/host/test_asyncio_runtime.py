"""A runtime inside an asyncio program: opened, called, stopped from the program's own tasks."""

from __future__ import annotations

import asyncio
import inspect
import threading
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio

from shardline import BusError, BusMessage, Code, Context, Event, Runtime, Topology
from shardline.asyncio import AsyncioContext, AsyncioRuntime, Options, open_runtime, runtime
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel
from tests.kits.bots import check_all_done, check_counted, counting_bot, new_message
from tests.kits.hosts import code_of_call, counting_host_bot, host_bot, in_asyncio


def test_asyncio_tasks_publish_and_the_answers_go_out_in_order(tmp_path: Path) -> None:
    channel = FakeChannel()
    said = {name: [str(number) for number in range(20)] for name in "abcd"}

    async def talk(bot: AsyncioRuntime, name: str) -> None:
        for text in said[name]:
            await bot.publish(new_message(text, key=f"fake:{name}"))

    async def main() -> None:
        async with runtime(counting_host_bot(), store=tmp_path / "bot.db", adapters=[channel]) as bot:
            async with asyncio.TaskGroup() as people:
                for name in said:
                    people.create_task(talk(bot, name))
            await bot.wait_quiet()
            check_all_done(bot.native)

    in_asyncio(main)
    check_counted(said, channel)


def test_its_calls_tell_what_those_of_the_native_runtime_tell(tmp_path: Path) -> None:
    async def main() -> None:
        topology, channel = counting_host_bot(), FakeChannel()
        topology.topic("log")
        async with runtime(topology, store=tmp_path / "bot.db", adapters=[channel]) as bot:
            first = await bot.publish(new_message("one", idem="k"))
            again = await bot.publish(new_message("one", idem="k"), wait="handled")
            assert (again.status, again.receipt.duplicate) == ("done", True)
            assert again.receipt.event_id == first.event_id
            assert (await bot.publish_validated(new_message("two"))).offset > first.offset
            event = await bot.publish(Event(id="e", ts_us=0, topic="log", payload=1))
            assert event.topic == "log"
            delivered = await bot.send("fake", "fake:a", "hello", "greeting")
            assert delivered.status == "sent"
            assert (
                await code_of_call(bot.call(lambda native: native.dead_letters.requeue(99))) is Code.NOT_FOUND
            )
            await bot.wait_quiet()
            assert bot.status().inbox[InboxStatus.DONE] == 2
            assert bot.counters["handled"] == 2
            assert bot.health().state == "ok"
            assert bot.info.shard_count == 16

    in_asyncio(main)


def test_a_stop_ends_serve_and_the_block_and_later_calls_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with runtime(counting_host_bot(), store=tmp_path / "bot.db", adapters=[FakeChannel()]) as bot:
            await bot.publish(new_message("hi"))
            serving = asyncio.create_task(bot.serve())
            await asyncio.sleep(0)
            bot.request_stop()
            await serving
        assert await code_of_call(bot.publish(new_message("later"))) is Code.BUS_CLOSED
        with pytest.raises(BusError, match="BUS_CLOSED"):
            bot.status()
        await bot.serve()
        await bot.close()
        assert not bot.has_cancelled_work

    in_asyncio(main)


def test_a_framework_opens_in_one_task_and_closes_in_another(tmp_path: Path) -> None:
    async def main() -> None:
        channel = FakeChannel()
        bot = await asyncio.create_task(
            open_runtime(counting_host_bot(), store=tmp_path / "bot.db", adapters=[channel])
        )
        await bot.publish(new_message("hi"), wait="handled")
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(bot.close())
        assert [out.text for out in channel.delivered] == ["1: hi"]

    in_asyncio(main)


def test_closing_inside_of_the_block_is_fine(tmp_path: Path) -> None:
    async def main() -> str:
        async with runtime(counting_host_bot(), store=tmp_path / "bot.db", adapters=[FakeChannel()]) as bot:
            await bot.close()
            await asyncio.sleep(0)
            return "went on"

    assert in_asyncio(main) == "went on"


def test_two_runtimes_share_a_loop_and_one_outlives_the_other(tmp_path: Path) -> None:
    async def main() -> None:
        channels = [FakeChannel(), FakeChannel()]
        async with runtime(counting_host_bot(), store=tmp_path / "a.db", adapters=channels[:1]) as one:
            async with runtime(counting_bot(), store=tmp_path / "b.db", adapters=channels[1:]) as two:
                await asyncio.gather(
                    *(
                        bot.publish(new_message(str(n)), wait="handled")
                        for n in range(5)
                        for bot in (one, two)
                    )
                )
                assert await code_of_call(open_and_close(tmp_path / "a.db")) is Code.STORE_LOCKED
            await one.publish(new_message("5"), wait="handled")
            assert await code_of_call(two.publish(new_message("5"))) is Code.BUS_CLOSED
            await one.wait_quiet()
        assert [len(channel.delivered) for channel in channels] == [6, 5]
        async with runtime(counting_host_bot(), store=tmp_path / "a.db", adapters=[FakeChannel()]) as again:
            assert again.info.clean

    in_asyncio(main)


async def open_and_close(store: Path) -> None:
    await (await open_runtime(counting_host_bot(), store=store, adapters=[FakeChannel()])).close()


def test_what_cannot_open_says_why_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "bad.db").write_bytes(b"not a store" * 1_000)

    async def main() -> None:
        assert await code_of_call(open_and_close(tmp_path / "bad.db")) is Code.STORE_CORRUPT
        with pytest.raises(BusError) as caught:
            async with runtime(Topology(), store=tmp_path / "a.db", adapters=[FakeChannel()]):
                pytest.fail("opened")
        assert caught.value.code is Code.NO_SUBSCRIBER

    in_asyncio(main)


def test_an_exception_of_the_block_comes_out_after_a_clean_stop(tmp_path: Path) -> None:
    async def main() -> None:
        async with runtime(counting_host_bot(), store=tmp_path / "bot.db", adapters=[FakeChannel()]) as bot:
            await bot.publish(new_message("hi"))
            raise ValueError("the block's")

    with pytest.raises(ValueError, match="the block's"):
        in_asyncio(main)
    trio.run(check_clean, tmp_path / "bot.db")


async def check_clean(store: Path) -> None:
    async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()]) as native:
        assert native.info.clean
        assert native.messages.list()[0].record.status is InboxStatus.DONE


class Broken(FakeChannel):
    """A channel that cannot go on."""

    def __init__(self) -> None:
        super().__init__()
        self.breaks = trio.Event()

    async def run(self, *args: object, **kwargs: object) -> None:
        task_status = typing.cast("trio.TaskStatus[None]", kwargs["task_status"])
        task_status.started()
        await self.breaks.wait()
        raise BusError(Code.STORE_CORRUPT, "as an actor escalates it")


def test_a_runtime_that_fails_cancels_the_block_and_its_error_comes_out(tmp_path: Path) -> None:
    async def main() -> None:
        channel = Broken()
        owner = asyncio.current_task()
        assert owner is not None
        with pytest.raises(BusError) as caught:
            async with runtime(counting_host_bot(), store=tmp_path / "bot.db", adapters=[channel]):
                channel.breaks.set()
                await asyncio.sleep(20)
        assert caught.value.code is Code.STORE_CORRUPT
        assert owner.cancelling() == 0

    in_asyncio(main)


def test_without_a_block_a_failure_comes_out_of_serve_and_close(tmp_path: Path) -> None:
    async def main() -> None:
        channel = Broken()
        bot = await open_runtime(counting_host_bot(), store=tmp_path / "bot.db", adapters=[channel])
        waiting = asyncio.create_task(code_of_call(bot.wait_drained()))
        await asyncio.sleep(0)
        channel.breaks.set()
        assert await code_of_call(bot.serve()) is Code.STORE_CORRUPT
        assert await waiting is Code.BUS_CLOSED
        assert await code_of_call(bot.close()) is Code.STORE_CORRUPT

    in_asyncio(main)


def test_pressure_reaches_the_publisher(tmp_path: Path) -> None:
    async def main() -> None:
        go = asyncio.Event()

        async def hold(ctx: AsyncioContext, message: BusMessage) -> None:
            await go.wait()

        options: Options = {"store": tmp_path / "bot.db", "adapters": [FakeChannel()], "max_inflight": 8}
        async with runtime(host_bot(hold), **options) as bot:
            for number in range(8):
                await bot.publish(new_message("x", key=f"fake:{number}"))
            assert await code_of_call(bot.publish(new_message("x"), timeout_s=0.01)) is Code.QUEUE_FULL
            waiting = asyncio.create_task(bot.publish(new_message("x")))
            done, _ = await asyncio.wait({waiting}, timeout=0.05)
            assert not done
            go.set()
            await waiting

    in_asyncio(main)


def test_a_call_of_the_other_loop_is_a_typed_error(tmp_path: Path) -> None:
    codes: dict[str, Code | None] = {}
    seen: list[Context] = []

    async def main() -> None:
        topology = Topology()

        @topology.on("chat.message")
        async def plain(ctx: Context, message: BusMessage) -> None:
            seen.append(ctx)
            codes["from a trio task"] = await code_of_call(bot.publish(new_message("x")))
            codes["open from a trio task"] = await code_of_call(open_and_close(tmp_path / "b.db"))
            codes["native from a trio task"] = await code_of_call(
                bot.native.publish(new_message("x", idem="1"))
            )
            codes["await asyncio"] = await code_of_call(asyncio.sleep(0.01))
            codes["await a pass of asyncio"] = await code_of_call(asyncio.sleep(0))
            await bot.native.publish(new_message("never", idem="1"))
            if message.payload.text == "hold":
                codes["step from asyncio"] = await elsewhere(ctx)

        async def elsewhere(ctx: Context) -> Code | None:
            result: list[Code | None] = []
            done = trio.Event()

            async def from_asyncio() -> None:
                result.append(await code_of_call(ctx.step("s", lambda: 1)))
                done.set()

            task = asyncio.get_running_loop().create_task(from_asyncio())
            await done.wait()
            assert not task.cancelled()
            return result[0]

        async with runtime(topology, store=tmp_path / "bot.db", adapters=[FakeChannel()]) as bot:
            codes["native open"] = await code_of_call(open_natively(tmp_path / "c.db"))
            codes["native publish"] = await code_of_call(bot.native.publish(new_message("x")))
            codes["native sender"] = await code_of_call(bot.native.sender.send("fake", "fake:a", "x", "k"))
            handled = await bot.publish(new_message("hold", key="fake:hold"), wait="handled")
            assert handled.status == "done"
            codes["another loop"] = await asyncio.to_thread(
                asyncio.run, code_of_call(bot.publish(new_message("x")))
            )
            await bot.wait_quiet()

    in_asyncio(main)
    allowed = codes.pop("native from a trio task")
    assert allowed is None
    assert codes == dict.fromkeys(codes, Code.WRONG_LOOP)
    assert len(codes) == 9


async def open_natively(store: Path) -> None:
    async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()]):
        pytest.fail("opened")


async def test_an_asyncio_handler_needs_an_asyncio_program(tmp_path: Path) -> None:
    with pytest.raises(BusError) as caught:
        async with Runtime.open(counting_host_bot(), store=tmp_path / "a.db", adapters=[FakeChannel()]):
            pytest.fail("opened")
    assert caught.value.code is Code.WRONG_LOOP
    assert not (tmp_path / "a.db").exists()
    assert await code_of_call(open_and_close(tmp_path / "b.db")) is Code.WRONG_LOOP


def test_its_options_are_those_of_the_native_runtime() -> None:
    native = inspect.signature(Runtime.open).parameters
    assert set(typing.get_type_hints(Options)) == set(native) - {"topology", "signals"}


@pytest.mark.parametrize("debug", [False, True])
def test_it_runs_in_any_thread_and_under_debug(debug: bool, tmp_path: Path) -> None:
    """Two loops in two threads, each with a runtime of its own, at the same time."""

    async def main(store: Path, meet: threading.Barrier) -> list[str]:
        channel = FakeChannel()
        async with runtime(counting_host_bot(), store=store, adapters=[channel]) as bot:
            await asyncio.to_thread(meet.wait)
            for number in range(10):
                await bot.publish(new_message(str(number)), wait="handled")
            await bot.wait_quiet()
        return [out.text for out in channel.delivered]

    meet = threading.Barrier(2)
    with ThreadPoolExecutor(2) as threads:
        running = [
            threads.submit(asyncio.run, main(tmp_path / f"{name}.db", meet), debug=debug) for name in "ab"
        ]
        assert [one.result(30) for one in running] == [[f"{n + 1}: {n}" for n in range(10)]] * 2
