"""A call that ends in its midst, or is cut off, leaves nothing to the garbage collector."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing

from shardline.adapters.telegram.api import HttpApi, NoAnswer
from shardline.adapters.telegram.calls import Upload
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_hostile import OK, Serve, answer, hostile

LARGE = 8 * 1024 * 1024
"""More than the sockets' buffers take."""


@contextmanager
def nothing_left() -> Generator[None]:
    """What is left to the collector is told as a ResourceWarning."""
    # What earlier tests of this process have left is not ours.
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(one.message) for one in told] == []


def server_that_tells(told: bytes) -> Serve:
    """Says this at once, and never reads."""

    async def serve(stream: trio.SocketStream) -> None:
        if told:
            await stream.receive_some()
            await stream.send_all(told)
        await trio.sleep_forever()

    return serve


SENDING = pytest.param(b"", LARGE, id="body")
HEAD = pytest.param(b"HTTP/1.1 200 OK\r\nconte", 10, id="head")
ANSWER = pytest.param(answer(OK)[:-5], 10, id="answer")


async def ask(api: HttpApi, kind: str, size: int, folder: Path) -> None:
    if kind == "call":
        await api.call("sendMessage", {"chat_id": 5, "text": "x" * size})
        return
    (folder / "a").write_bytes(bytes(size))
    await api.call("sendDocument", {"chat_id": 5}, upload=Upload("document", str(folder / "a")))


@pytest.mark.parametrize(("told", "size"), [SENDING, HEAD, ANSWER])
@pytest.mark.parametrize("kind", ["call", "file"])
async def test_a_call_that_is_cancelled(kind: str, told: bytes, size: int, tmp_path: Path) -> None:
    with nothing_left():
        async with hostile(server_that_tells(told)) as api, trio.open_nursery() as nursery:
            nursery.start_soon(ask, api, kind, size, tmp_path)
            await trio.testing.wait_all_tasks_blocked(0.02)
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("kind", ["call", "file"])
async def test_an_answer_without_end_in_a_call_that_is_cancelled(kind: str, tmp_path: Path) -> None:
    """Its connection is closed in the midst of its body."""

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            await stream.send_all(b"100000\r\n" + bytes(1 << 20) + b"\r\n")

    with nothing_left():
        async with hostile(serve) as api:
            with pytest.raises(NoAnswer):
                await ask(api, kind, 10, tmp_path)


@pytest.mark.parametrize("kind", ["call", "file"])
async def test_a_server_that_goes_in_the_midst(kind: str, tmp_path: Path) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(10)

    with nothing_left():
        async with hostile(serve) as api:
            with pytest.raises(NoAnswer):
                await ask(api, kind, LARGE, tmp_path)


async def test_a_call_through_a_proxy_that_is_cancelled(tmp_path: Path) -> None:
    """Over httpx's own pool."""
    with nothing_left():
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        address = cast("tuple[str, int]", listeners[0].socket.getsockname())
        api = HttpApi(TOKEN, base="http://127.0.0.1:9", proxy=f"http://127.0.0.1:{address[1]}")
        async with listeners[0], trio.open_nursery() as nursery:
            nursery.start_soon(ask, api, "call", LARGE, tmp_path)
            await trio.testing.wait_all_tasks_blocked(0.02)
            nursery.cancel_scope.cancel()
        await api.aclose()
