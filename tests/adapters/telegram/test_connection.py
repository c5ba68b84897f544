"""What a server may do with a connection: keep it, close it, say more than it was asked for, speak TLS."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import trio
import trio.testing

from shardline.adapters.telegram.api import HttpApi, NeverSent, NoAnswer
from shardline.adapters.telegram.wire import Ok
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_cancelled_calls import nothing_left
from tests.adapters.telegram.test_hostile import LIMIT_S, OK, answer, hostile, once

CERTIFICATE = Path(__file__).with_name("localhost.pem")
"""Of 127.0.0.1, signed by itself, and its key; good for a hundred years."""
OTHER = b'{"ok":true,"result":{"message_id":2}}'
TICKET = answer(OTHER, more=b"x: y\r\n")


async def numbers(api: HttpApi, calls: int) -> list[object]:
    found: list[object] = []
    for _ in range(calls):
        told = await api.call("sendMessage", {"chat_id": 5, "text": "hi"})
        assert isinstance(told, Ok)
        found.append(cast("dict[str, object]", told.result)["message_id"])
    return found


@pytest.mark.parametrize(
    "more", [answer(OTHER), TICKET[:20], b"nonsense"], ids=["an answer", "half an answer", "nonsense"]
)
async def test_what_comes_behind_an_answer_is_not_taken_for_the_next_one(more: bytes) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            await stream.send_all(answer(OK) + more)

    async with hostile(serve) as api:
        assert await numbers(api, 3) == [1, 1, 1]


async def test_what_comes_while_nobody_asks_is_not_taken_for_the_next_one() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(answer(OK))
        await trio.testing.wait_all_tasks_blocked()
        await stream.send_all(answer(OTHER))

    async with hostile(serve) as api:
        for _ in range(3):
            assert await numbers(api, 1) == [1]
            await trio.testing.wait_all_tasks_blocked(0.02)


@pytest.mark.parametrize(
    ("told", "is_kept"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n" + OK, False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 37\r\n\r\n" + OK, False),
        (answer(OK, more=b"connection: close\r\n"), False),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + answer(OK), True),
        (answer(OK, more=b"connection: upgrade, keep-alive\r\nupgrade: h2,h2c\r\n"), True),
        (
            b"HTTP/1.1 103 Early Hints\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n" + OK,
            False,
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n25\r\n" + OK + b"\r\n0\r\nx: y\r\n\r\n",
            True,
        ),
    ],
    ids=[
        "until the end",
        "an old server",
        "closes",
        "more than one head",
        "an upgrade on offer",
        "a head with a length",
        "chunks",
    ],
)
async def test_every_form_of_an_answer_is_read(told: bytes, is_kept: bool) -> None:
    connections = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal connections
        connections += 1
        while await stream.receive_some():
            await stream.send_all(told)
            if not is_kept:
                return

    async with hostile(serve) as api:
        assert await numbers(api, 3) == [1, 1, 1]

    assert connections == (1 if is_kept else 3)


async def test_a_refusal_before_all_of_a_request_was_read_is_its_answer() -> None:
    body = b'{"ok":false,"error_code":413,"description":"Request Entity Too Large"}'

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(100)
        await stream.send_all(answer(body, status=b"413 Too Large", more=b"connection: close\r\n"))
        await stream.send_eof()
        while await stream.receive_some(1 << 20):
            pass

    async with hostile(serve) as api:
        told = await api.call("sendMessage", {"chat_id": 5, "text": "x" * (8 << 20)})

    assert not isinstance(told, Ok)
    assert told.code == 413


async def test_heads_without_end_are_cut_off() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        while True:
            await stream.send_all(b"HTTP/1.1 102 Processing\r\n\r\n" * 1_000)

    async with hostile(serve) as api:
        with pytest.raises(NoAnswer, match="head"):
            await numbers(api, 1)


async def test_a_server_at_an_address_of_ipv6() -> None:
    try:
        [listener] = await trio.open_tcp_listeners(0, host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    heads: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            heads.append(bytes(await stream.receive_some()))
            await stream.send_all(answer(OK))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        port = cast("tuple[str, int]", listener.socket.getsockname())[1]
        api = HttpApi(TOKEN, base=f"http://[::1]:{port}")
        with trio.fail_after(LIMIT_S):
            assert await numbers(api, 1) == [1]
        await api.aclose()
        nursery.cancel_scope.cancel()

    assert b"\r\nhost: [::1]:%d\r\n" % port in heads[0]


async def test_a_method_cannot_write_into_the_head() -> None:
    async with hostile(once(answer(OK))) as api:
        with pytest.raises(NeverSent):
            await api.call("getMe HTTP/1.1\r\nx: y", {})


@asynccontextmanager
async def over_tls(told: bytes) -> AsyncGenerator[str]:
    """A server that answers every request with this; gives its address."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)

    async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
        try:
            async with stream:
                while await stream.receive_some():
                    await stream.send_all(told)
        except trio.BrokenResourceError:
            # The client does not trust it, or has had enough.
            return

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        secure = trio.SSLListener(listener, context, https_compatible=True)
        nursery.start_soon(trio.serve_listeners, serve, [secure])
        port = cast("tuple[str, int]", listener.socket.getsockname())[1]
        with trio.fail_after(LIMIT_S):
            yield f"https://127.0.0.1:{port}"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("told", [answer(OK), answer(OK) + answer(OTHER)], ids=["one answer", "two"])
async def test_calls_over_tls(told: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    async with over_tls(told) as base:
        api = HttpApi(TOKEN, base=base)
        assert await numbers(api, 4) == [1] * 4
        await api.aclose()


async def test_a_connection_that_waits_is_closed_where_the_next_call_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with nothing_left():
        async with over_tls(answer(OK)) as base:
            api = HttpApi(TOKEN, base=base)
            assert await numbers(api, 1) == [1]
            with trio.CancelScope() as scope:
                scope.cancel()
                await numbers(api, 1)
            assert scope.cancelled_caught
            await api.aclose()


async def test_a_certificate_that_nobody_trusts_was_never_sent_anything() -> None:
    async with over_tls(answer(OK)) as base:
        api = HttpApi(TOKEN, base=base)
        with pytest.raises(NeverSent, match="SSLCertVerificationError"):
            await api.call("getMe", {})
        await api.aclose()
