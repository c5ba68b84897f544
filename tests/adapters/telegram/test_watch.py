"""Calls that wait side by side over connections without TLS: one of them reads for all."""

from __future__ import annotations

import math
import os
import select
import socket
from typing import cast

import pytest
import trio
import trio.testing

from shardline.adapters.telegram import connections
from shardline.adapters.telegram import watch as watch_module
from shardline.adapters.telegram.api import HttpApi, NeverSent, NoAnswer
from shardline.adapters.telegram.direct import Direct
from shardline.adapters.telegram.failures import NotConnected
from shardline.adapters.telegram.watch import HAS_WATCH, Watch
from shardline.adapters.telegram.wire import Ok
from tests.adapters.telegram.test_cancelled_calls import nothing_left
from tests.adapters.telegram.test_hostile import LIMIT_S, OK, Serve, answer, hostile

CALLS = 6


class Gate:
    """A server that answers a chat when it is told to."""

    def __init__(self) -> None:
        self.let: dict[int, trio.Event] = {chat: trio.Event() for chat in range(1, CALLS + 1)}
        self.asked: list[int] = []

    def serve(self) -> Serve:
        async def serve(stream: trio.SocketStream) -> None:
            while told := bytes(await stream.receive_some()):
                chat = int(told.partition(b'"chat_id":')[2].partition(b",")[0])
                self.asked.append(chat)
                await self.let[chat].wait()
                await stream.send_all(answer(OK.replace(b"1}", b"%d}" % chat)))

        return serve


async def call(
    api: HttpApi, chat: int, told: dict[int, object], *, read_s: float = 20.0, size: int = 2
) -> None:
    try:
        found = await api.call("sendMessage", {"chat_id": chat, "text": "x" * size}, read_s=read_s)
    except NoAnswer as error:
        told[chat] = str(error)
    else:
        assert isinstance(found, Ok)
        told[chat] = cast("dict[str, object]", found.result)["message_id"]


async def all_asked(gate: Gate, calls: int = CALLS) -> None:
    while len(gate.asked) < calls:
        await trio.lowlevel.checkpoint()
    await trio.testing.wait_all_tasks_blocked(0.01)


@pytest.mark.parametrize("order", [range(1, CALLS + 1), range(CALLS, 0, -1)], ids=["in order", "backwards"])
async def test_each_call_gets_its_own_answer_whoever_reads(order: range) -> None:
    gate, told = Gate(), dict[int, object]()
    async with hostile(gate.serve()) as api, trio.open_nursery() as nursery:
        for chat in gate.let:
            nursery.start_soon(call, api, chat, told)
        await all_asked(gate)
        for chat in order:
            gate.let[chat].set()
            while chat not in told:
                await trio.lowlevel.checkpoint()

    assert told == {chat: chat for chat in gate.let}
    assert list(told) == list(order)


@pytest.mark.parametrize("gone", [[1], [CALLS], [1, 2, 3], [3, 1, CALLS, 2]], ids=str)
async def test_the_others_are_answered_where_those_that_read_are_cancelled(gone: list[int]) -> None:
    gate, told = Gate(), dict[int, object]()
    scopes = {chat: trio.CancelScope() for chat in gate.let}

    async def scoped(api: HttpApi, chat: int) -> None:
        with scopes[chat]:
            await call(api, chat, told)

    async with hostile(gate.serve()) as api, trio.open_nursery() as nursery:
        for chat in gate.let:
            nursery.start_soon(scoped, api, chat)
            await all_asked(gate, chat)
        for chat in gone:
            scopes[chat].cancel()
            await trio.testing.wait_all_tasks_blocked(0.01)
        for event in gate.let.values():
            event.set()

    assert told == {chat: chat for chat in gate.let if chat not in gone}


@pytest.mark.parametrize("late", [1, CALLS], ids=["the one that reads", "another one"])
async def test_a_time_limit_is_each_calls_own(late: int) -> None:
    gate, told = Gate(), dict[int, object]()
    async with hostile(gate.serve()) as api, trio.open_nursery() as nursery:
        for chat in gate.let:
            nursery.start_soon(lambda one: call(api, one, told, read_s=1.0 if one == late else 60.0), chat)
            await all_asked(gate, chat)
        while late not in told:
            await trio.lowlevel.checkpoint()
        for event in gate.let.values():
            event.set()

    assert told.pop(late) == "no complete answer: TooSlowError"
    assert told == {chat: chat for chat in gate.let if chat != late}


async def test_an_idle_connection_that_ends_while_others_wait_is_not_used() -> None:
    gate, told = Gate(), dict[int, object]()
    connections = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        if connections == 1:
            await gate.serve()(stream)
            return
        await stream.receive_some()
        await stream.send_all(answer(OK))

    async with hostile(serve) as api, trio.open_nursery() as nursery:
        nursery.start_soon(call, api, 1, told)
        await all_asked(gate, 1)
        for _ in range(3):
            await call(api, 2, told)
            assert told.pop(2) == 1
            await trio.testing.wait_all_tasks_blocked(0.01)
        gate.let[1].set()

    assert told == {1: 1}
    assert connections == 4


async def test_a_server_that_does_not_read_ends_the_one_call_that_it_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "WRITE_S", 0.2)
    gate, told = Gate(), dict[int, object]()

    async def serve(stream: trio.SocketStream) -> None:
        first = bytes(await stream.receive_some(2_000))
        if b'"chat_id":2,' in first:
            await trio.sleep_forever()
        gate.asked.append(1)
        await gate.let[1].wait()
        await stream.send_all(answer(OK))

    async with hostile(serve) as api, trio.open_nursery() as nursery:
        nursery.start_soon(call, api, 1, told)
        await all_asked(gate, 1)
        await call(api, 2, told, size=8 << 20)
        assert told == {2: "no complete answer: TooSlowError"}
        gate.let[1].set()

    assert told.pop(1) == 1


async def test_nothing_stays_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    gate, told = Gate(), dict[int, object]()
    for event in gate.let.values():
        event.set()
    async with hostile(gate.serve()) as api:
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for chat in gate.let:
                    nursery.start_soon(call, api, chat, told)
            await api.aclose()

    assert len(told) == CALLS
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.skipif(not HAS_WATCH, reason="there is no epoll here")
async def test_an_answer_read_by_the_look_of_another_call_wakes_the_one_that_reads() -> None:
    ours, theirs = socket.socketpair()
    watch = Watch()
    connection = Direct(ours, watch)
    found: list[tuple[int, bytes]] = []

    async def ask() -> None:
        found.append(await connection.ask(b"x", write_s=20, read_s=20, whole_s=20))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            theirs.sendall(answer(OK))
            # Before the loop can tell the one that reads.
            watch.look_since(math.inf)
    await connection.aclose()
    theirs.close()

    assert [status for status, _ in found] == [200]


def clock_at(seconds: float) -> trio.testing.MockClock:
    clock = trio.testing.MockClock(rate=1)
    clock.jump(seconds)
    return clock


@pytest.mark.skipif(not HAS_WATCH, reason="there is no epoll here")
@pytest.mark.parametrize("starts", [(1_000.0, 0.0), (0.0, 1_000.0)], ids=["earlier", "later"])
def test_a_connection_that_ended_between_two_loops_is_not_used(
    starts: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trio's clock begins anywhere in each loop; an adapter may be in two, one after the other."""
    monkeypatch.setattr(watch_module, "_FRESH_S", 0.0)
    ours, theirs = socket.socketpair()
    watch = Watch()
    connection = Direct(ours, watch)
    found: list[bool] = []

    async def first() -> None:
        with trio.fail_after(LIMIT_S):
            theirs.sendall(answer(OK))
            await connection.ask(b"x", write_s=20, read_s=20, whole_s=20)
        # Another call, which is cut off with the loop.
        watch.look_since(math.inf)

    async def second() -> None:
        found.append(await connection.is_quiet())
        await connection.aclose()

    trio.run(first, clock=clock_at(starts[0]))
    theirs.close()
    trio.run(second, clock=clock_at(starts[1]))

    assert found == [False]


@pytest.mark.skipif(not HAS_WATCH, reason="there is no epoll here")
async def test_a_request_of_which_no_byte_can_leave_was_never_sent() -> None:
    ours, theirs = socket.socketpair()
    connection = Direct(ours, Watch())
    theirs.close()
    with pytest.raises(NotConnected, match="BrokenPipeError"):
        await connection.ask(b"x", write_s=20, read_s=20, whole_s=20)
    assert not connection.is_reusable
    await connection.aclose()


@pytest.mark.skipif(not HAS_WATCH, reason="there is no epoll here")
async def test_a_process_without_a_file_for_an_epoll_sends_nothing_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> select.epoll:
        raise OSError(24, "Too many open files")

    with nothing_left():
        async with hostile(Gate().serve()) as api:
            monkeypatch.setattr(select, "epoll", refuse)
            with pytest.raises(NeverSent, match="OSError"):
                await api.call("sendMessage", {"chat_id": 1, "text": "hi"})
            monkeypatch.undo()
