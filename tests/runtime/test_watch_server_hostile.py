"""Peers that are slow, many or wrong: the watch server serves the next one, and the bot goes on meanwhile."""

from __future__ import annotations

import gc
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock, memory_stream_pair

from shardline import Runtime, Topology
from shardline.runtime import watch_server as module
from shardline.runtime.watch_server import watch_server
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel
from tests.kits.bots import check_counted, counting_bot, until_quiet
from tests.runtime.test_watch_server import TOKEN, ask, talk, values

DESCRIPTORS = Path("/proc/self/fd")


def open_files() -> int:
    return len(os.listdir(DESCRIPTORS)) if DESCRIPTORS.exists() else 0


async def test_a_thousand_scrapes_leave_nothing_behind_and_hold_no_message_up() -> None:
    channel = FakeChannel()
    said = [str(number) for number in range(100)]
    async with (
        Runtime.open(counting_bot(), store=open_memory(), adapters=[channel]) as runtime,
        watch_server(runtime, token=TOKEN, port=0) as port,
    ):
        await ask(port, "GET /metrics")
        gc.collect()
        before, tasks = open_files(), trio.lowlevel.current_statistics().tasks_living

        async def scrape() -> None:
            for number in range(250):
                path = "/metrics" if number % 2 else "/health"
                assert (await ask(port, f"GET {path}", token=TOKEN if number % 5 else "wrong-token"))[0] == (
                    200 if number % 5 else 401
                )

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(scrape)
            for text in said:
                await channel.say("a", text)
        await until_quiet(runtime)
        await trio.testing.wait_all_tasks_blocked(0.05)
        gc.collect()

        assert open_files() <= before
        # The bot has started workers of its own meanwhile.
        assert trio.lowlevel.current_statistics().tasks_living < tasks + 16
        assert (await ask(port, "GET /metrics"))[0] == 200
    check_counted({"a": said}, channel)


async def test_a_peer_that_sends_a_byte_now_and_then_is_cut_off(autojump_clock: MockClock) -> None:
    async with Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime:
        pages = module.Pages(runtime, None)
        ours, theirs = memory_stream_pair()
        sent = 0

        async def dawdle() -> None:
            nonlocal sent
            try:
                for byte in b"GET /health HTTP/1.1\r\nHost: " + b"a" * 100:
                    await ours.send_all(bytes([byte]))
                    sent += 1
                    await trio.sleep(1)
            except trio.BrokenResourceError:
                return

        began_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dawdle)
            await pages.serve(theirs)
            assert trio.current_time() - began_s <= 10
        assert sent <= 12


async def served(pages: module.Pages, nursery: trio.Nursery) -> trio.abc.HalfCloseableStream:
    """A new connection."""
    ours, theirs = memory_stream_pair()
    nursery.start_soon(pages.serve, theirs)
    await trio.testing.wait_all_tasks_blocked()
    return ours


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    try:
        return b"".join([part async for part in stream])
    except trio.BrokenResourceError:
        return b""


async def test_many_that_say_nothing_keep_nobody_out(autojump_clock: MockClock) -> None:
    async with (
        Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime,
        trio.open_nursery() as nursery,
    ):
        pages = module.Pages(runtime, None)
        idle = [await served(pages, nursery) for _ in range(64)]
        for _ in range(3):
            scraper = await served(pages, nursery)
            await scraper.send_all(b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
            assert (await read_all(scraper)).startswith(b"HTTP/1.1 200 ")

        with trio.move_on_after(0.5) as still:
            await idle[1].receive_some()
        assert still.cancelled_caught, "one place was enough for the three"
        assert await idle[0].receive_some() == b""


async def test_three_hundred_that_have_just_come_and_say_nothing_keep_nobody_out() -> None:
    async with (
        Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime,
        watch_server(runtime, token=TOKEN, port=0) as port,
        AsyncExitStack() as stack,
    ):
        for _ in range(300):
            await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
        answered: list[int] = []

        async def scrape() -> None:
            answered.append((await ask(port, "GET /metrics", token=TOKEN))[0])

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(scrape)
        assert answered == [200] * 20


async def test_who_posts_much_is_told_that_there_is_only_get() -> None:
    """Closed with its body unread, a connection is reset, and the answer with it."""
    head = b"POST /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 8388608\r\n\r\n"
    async with (
        Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime,
        watch_server(runtime, token=TOKEN, port=0) as port,
    ):
        assert (await talk(port, head + bytes(8_388_608)))[0] == 405
        # A head that has no end, and more behind it.
        assert (await talk(port, b"GET /metrics HTTP/1.1\r\nA: " + b"a" * 4_000_000))[0] == 431


async def test_what_nobody_wants_is_not_read_for_ever(autojump_clock: MockClock) -> None:
    async with (
        Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime,
        trio.open_nursery() as nursery,
    ):
        pages = module.Pages(runtime, None)
        ours = await served(pages, nursery)
        began_s = trio.current_time()
        await ours.send_all(b"POST /metrics HTTP/1.1\r\nHost: here\r\nContent-Length: 99999999\r\n\r\n")
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await ours.send_all(b"a")
                await trio.sleep(0.1)
        assert 1.5 < trio.current_time() - began_s < 3


async def test_odd_names_of_topics_and_channels_stay_within_their_labels() -> None:
    topology, channel = Topology(), FakeChannel(name="o_d_d-channel")
    names = ["a" * 128, "a-b.c_d.v1", "0.1.2.3.4.5.6.7", "chat.message"]
    for name in names:

        @topology.on(name)
        async def answer(ctx: object, message: object) -> None:
            await trio.lowlevel.checkpoint()

    async with Runtime.open(topology, store=open_memory(), adapters=[channel]) as runtime:
        found = values(runtime.metrics().text().decode())

    assert {f"shardline_turns_running topic={name}" for name in names} <= found.keys()
    assert "shardline_sends_running channel=o_d_d-channel" in found
