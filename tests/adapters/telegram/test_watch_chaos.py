"""Many calls at once to a server in another thread that does all a server can do: each has its own answer, or none."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import attrs
import pytest
import trio

from shardline.adapters.telegram.api import CallFailed, HttpApi
from shardline.adapters.telegram.wire import Ok
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_cancelled_calls import nothing_left
from tests.adapters.telegram.test_hostile import OK, answer

WORKERS = 24
CALLS = 40
LIMIT_S = 200.0
ANSWERED = ("at once", "in pieces", "after a while", "chunks", "until the end", "then closed", "then more",
            "heads before", "large")  # fmt: skip
UNANSWERED = ("half, then closed", "half, then reset", "closed", "reset", "nonsense", "never")


@attrs.frozen
class Chaos:
    """The server: each request names what becomes of it."""

    random: random.Random

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            try:
                while told := bytes(await stream.receive_some()):
                    if not await self._answer(stream, told):
                        return
            except trio.BrokenResourceError:
                # The client has had enough.
                return

    async def _answer(self, stream: trio.SocketStream, told: bytes) -> bool:
        number = told.partition(b'"chat_id":')[2].partition(b",")[0]
        body = OK.replace(b"1}", number + b"}")
        whole = answer(body)
        match told.partition(b'"text":"')[2].partition(b'"')[0].decode():
            case "at once":
                await stream.send_all(whole)
            case "in pieces":
                cut = self.random.randrange(1, len(whole))
                await stream.send_all(whole[:cut])
                await self._wait()
                await stream.send_all(whole[cut:])
            case "after a while":
                await self._wait()
                await stream.send_all(whole)
            case "chunks":
                await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                await stream.send_all(b"%x\r\n%b\r\n" % (len(body), body))
                await self._wait()
                await stream.send_all(b"0\r\n\r\n")
            case "until the end":
                await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n" + body)
                return False
            case "then closed":
                await stream.send_all(whole)
                return False
            case "then more":
                # Any later it could not be told from the answer to the next request.
                await stream.send_all(whole + answer(OK.replace(b"1}", b"-1}")))
                await self._wait()
            case "heads before":
                await stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
                await self._wait()
                await stream.send_all(whole)
            case "large":
                await stream.send_all(answer(body + b" " * 400_000))
            case "half, then closed":
                await stream.send_all(whole[:-3])
                return False
            case "half, then reset":
                await stream.send_all(whole[:-3])
                reset(stream)
                return False
            case "closed":
                return False
            case "reset":
                reset(stream)
                return False
            case "nonsense":
                await stream.send_all(b"\x00\xff" * 9)
                return False
            case _:
                await trio.sleep_forever()
        return True

    async def _wait(self) -> None:
        await trio.sleep(self.random.random() * 0.01)


def reset(stream: trio.SocketStream) -> None:
    """Let its close be a reset."""
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@asynccontextmanager
async def chaos(seed: int) -> AsyncGenerator[str]:
    """The server in a loop and thread of its own; gives its address."""
    is_up, over = threading.Event(), trio.CancelScope()
    ports: list[int] = []
    token: list[trio.lowlevel.TrioToken] = []

    async def serve() -> None:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=256)
        ports.append(cast("tuple[str, int]", listener.socket.getsockname())[1])
        token.append(trio.lowlevel.current_trio_token())
        with over:
            is_up.set()
            await trio.serve_listeners(Chaos(random.Random(seed)).serve, [listener])

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    try:
        assert await trio.to_thread.run_sync(is_up.wait, LIMIT_S)
        yield f"http://127.0.0.1:{ports[0]}"
    finally:
        for one in token:
            one.run_sync_soon(over.cancel)
        thread.join()


async def one_call(api: HttpApi, number: int, dice: random.Random) -> str:
    kind = dice.choice(ANSWERED + UNANSWERED) if dice.random() < 0.5 else dice.choice(ANSWERED)
    cut_s = dice.random() * 0.01 if kind == "never" or dice.random() < 0.2 else LIMIT_S
    read_s = 0.02 if kind == "never" and dice.random() < 0.5 else LIMIT_S
    with trio.move_on_after(cut_s) as scope:
        try:
            found = await api.call("sendMessage", {"chat_id": number, "text": kind}, read_s=read_s)
        except CallFailed:
            # Or the server closed the connection in the last moment.
            return "none" if kind in UNANSWERED else "crossed"
        assert isinstance(found, Ok)
        assert (kind in ANSWERED, found.result) == (True, {"message_id": number})
        return "answered"
    assert scope.cancelled_caught
    return "cut off"


async def some_calls(base: str, seed: int) -> dict[str, int]:
    """How often each end came."""
    ends: dict[str, int] = {}

    async def work(api: HttpApi, worker: int) -> None:
        dice = random.Random(seed * 1_000 + worker)
        for at in range(CALLS):
            end = await one_call(api, 1 + worker * CALLS + at, dice)
            ends[end] = ends.get(end, 0) + 1

    api = HttpApi(TOKEN, base=base)
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            for worker in range(WORKERS):
                nursery.start_soon(work, api, worker)
        await api.aclose()
    return ends


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
async def test_each_call_has_its_own_answer_or_none(seed: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with nothing_left():
        async with chaos(seed) as base:
            ends = await some_calls(base, seed)

    assert sum(ends.values()) == WORKERS * CALLS
    assert ends["answered"] > WORKERS * CALLS / 3
    # A close may cross a request: no more often than there are closes.
    assert ends.get("crossed", 0) < WORKERS * CALLS / 5
    assert len(os.listdir("/proc/self/fd")) <= before


async def test_loops_in_two_threads_do_not_meet() -> None:
    found: list[dict[str, int]] = []

    async def elsewhere(base: str, seed: int) -> None:
        found.append(await trio.to_thread.run_sync(trio.run, some_calls, base, seed))

    async with chaos(7) as base, trio.open_nursery() as nursery:
        for seed in (7, 8):
            nursery.start_soon(elsewhere, base, seed)

    assert [sum(ends.values()) for ends in found] == [WORKERS * CALLS] * 2
    assert min(ends["answered"] for ends in found) > WORKERS * CALLS / 3
