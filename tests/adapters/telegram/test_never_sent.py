"""Waits that end before a byte of a call has left: for a connection to be made, and for one to be free."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from shardline.adapters.telegram import connections
from shardline.adapters.telegram.api import HttpApi, NeverSent
from shardline.adapters.telegram.calls import Upload
from shardline.adapters.telegram.connections import CONNECT_S
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_hostile import LIMIT_S

API = "shardline.adapters.telegram.api"
SOON_S = 0.05


class Silent:
    """A server that takes connections and says nothing; `asked` when it has read something."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.asked = trio.Event()


@asynccontextmanager
async def silent() -> AsyncGenerator[Silent]:
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = cast("tuple[str, int]", listener.socket.getsockname())[1]
        server = Silent(f"127.0.0.1:{port}")

        async def serve(stream: trio.SocketStream) -> None:
            async with stream:
                while await stream.receive_some():
                    server.asked.set()

        nursery.start_soon(trio.serve_listeners, serve, [listener])
        with trio.fail_after(LIMIT_S):
            yield server
        nursery.cancel_scope.cancel()


def upload_of(folder: Path, *, is_file: bool) -> Upload | None:
    """A file goes over connections of httpx, all else over our own."""
    (folder / "a").write_bytes(b"x")
    return Upload("document", str(folder / "a")) if is_file else None


async def test_a_host_that_does_not_answer_was_never_sent_anything(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait(_host: str, _port: int) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(trio, "open_tcp_stream", wait)
    api = HttpApi(TOKEN, base="http://127.0.0.1:9")
    begun_s = trio.current_time()
    with pytest.raises(NeverSent, match="no connection: TooSlowError"):
        await api.call("sendMessage", {"chat_id": 5, "text": "hi"})

    assert trio.current_time() - begun_s == pytest.approx(CONNECT_S)


@pytest.mark.parametrize("is_file", [False, True], ids=["a text", "a file"])
async def test_a_server_that_does_not_agree_on_tls_was_never_sent_anything(
    is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECT_S", SOON_S)
    monkeypatch.setattr(f"{API}.CONNECT_S", SOON_S)
    async with silent() as server:
        api = HttpApi(TOKEN, base=f"https://{server.base}")
        with pytest.raises(NeverSent, match="no connection"):
            await api.call("sendDocument", {"chat_id": 5}, upload=upload_of(tmp_path, is_file=is_file))
        await api.aclose()


@pytest.mark.parametrize("is_file", [False, True], ids=["a text", "a file"])
async def test_a_call_that_gets_no_connection_was_never_sent(
    is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("CONNECTIONS", 1), ("POOL_S", SOON_S)):
        monkeypatch.setattr(connections, name, value)
        monkeypatch.setattr(f"{API}.{name}", value)
    upload = upload_of(tmp_path, is_file=is_file)
    async with silent() as server, trio.open_nursery() as nursery:
        api = HttpApi(TOKEN, base=f"http://{server.base}")

        async def hold() -> None:
            await api.call("sendDocument", {"chat_id": 5}, upload=upload, read_s=LIMIT_S)

        nursery.start_soon(hold)
        await server.asked.wait()
        with pytest.raises(NeverSent, match=r"in use|PoolTimeout"):
            await api.call("sendDocument", {"chat_id": 6}, upload=upload)
        nursery.cancel_scope.cancel()
    await api.aclose()
