"""A server that means harm, or is broken, costs no loop, no memory and no wrong outcome."""

from __future__ import annotations

import gzip
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from shardline.actors.plain import Plain
from shardline.adapters.telegram import api as api_module
from shardline.adapters.telegram import connections
from shardline.adapters.telegram.address import Address
from shardline.adapters.telegram.api import HttpApi, NoAnswer
from shardline.adapters.telegram.calls import Upload
from shardline.adapters.telegram.limits import EMPTY_S
from shardline.adapters.telegram.outcomes import outcome_of
from shardline.adapters.telegram.wire import MOST_WAIT_S, Ok, Refusal, read_answer
from shardline.runtime.channel import NotSent
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_poller import Server, Watched, poll, update

Serve = Callable[[trio.SocketStream], Awaitable[None]]
OK = b'{"ok":true,"result":{"message_id":1}}'
LIMIT_S = 20.0


@asynccontextmanager
async def hostile(serve: Serve) -> AsyncGenerator[HttpApi]:
    """An adapter's calls to a server that does with each connection what it likes."""

    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            try:
                await serve(stream)
            except trio.BrokenResourceError:
                # The client has had enough.
                return

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, handle, listeners)
        port = cast("tuple[str, int]", listeners[0].socket.getsockname())[1]
        api = HttpApi(TOKEN, base=f"http://127.0.0.1:{port}")
        with trio.fail_after(LIMIT_S):
            yield api
        await api.aclose()
        nursery.cancel_scope.cancel()


def answer(body: bytes, *, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\n%scontent-length: %d\r\n\r\n%s" % (status, more, len(body), body)


def once(told: bytes) -> Serve:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(told)

    return serve


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"\x00\xff\x13" * 50,
        b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000,
        answer(OK[:20]),
        answer(b'{"ok":"yes"}'),
        answer(b"[" * 5_000),
        answer(b"null"),
        answer(b"<html>502</html>", status=b"502 Bad Gateway"),
        answer(b"", status=b"302 Found", more=b"location: http://127.0.0.1:9/bot1:x/sendMessage\r\n"),
        answer(gzip.compress(bytes(50_000_000)), more=b"content-encoding: gzip\r\n"),
        answer(gzip.compress(OK), more=b"content-encoding: gzip\r\n"),
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n" + OK,
        answer(OK, more=b"transfer-encoding: chunked\r\n"),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n" + OK,
    ],
    ids=[
        "nothing", "no HTTP", "half a body", "a length below zero", "a head without end", "half a document",
        "a wrong type", "deep", "null", "a page of a proxy", "elsewhere", "a bomb", "packed",
        "no content", "another protocol", "two lengths", "a chunk without end",
    ],
)  # fmt: skip
async def test_what_is_no_answer_is_uncertain(told: bytes) -> None:
    async with hostile(once(told)) as api:
        with pytest.raises(NoAnswer):
            await api.call("sendMessage", {"chat_id": 5, "text": "hi"}, read_s=5)


async def test_an_answer_without_end_is_cut_off() -> None:
    sent = 0

    async def serve(stream: trio.SocketStream) -> None:
        nonlocal sent
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            await stream.send_all(b"100000\r\n" + bytes(1 << 20) + b"\r\n")
            sent += 1

    async with hostile(serve) as api:
        with pytest.raises(NoAnswer):
            await api.call("getUpdates", {})

        assert sent < 64


async def test_a_drip_does_not_hold_a_call_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WHOLE_S", 0.3)

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while True:
            await stream.send_all(b" ")
            await trio.sleep(0.01)

    async with hostile(serve) as api:
        with pytest.raises(NoAnswer, match="TooSlowError"):
            await api.call("getUpdates", {}, read_s=0.3)


async def test_a_drip_of_a_head_does_not_hold_an_upload_for_ever(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(api_module, "WHOLE_S", 0.3)
    (tmp_path / "a").write_bytes(b"x")

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nx: ")
        while True:
            await stream.send_all(b"y")
            await trio.sleep(0.01)

    async with hostile(serve) as api:
        with pytest.raises(NoAnswer, match="TooSlowError"):
            await api.call("sendDocument", {}, upload=Upload("document", str(tmp_path / "a")), read_s=0.3)


@pytest.mark.parametrize("size", [100, 32 << 20], ids=["shrinks", "grows"])
async def test_a_file_that_changes_while_it_is_sent_is_uncertain(size: int, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(16 << 20))

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        os.truncate(path, size)
        while await stream.receive_some(1 << 20):
            pass

    async with hostile(serve) as api:
        with pytest.raises(NoAnswer, match="WriteError"):
            await api.call("sendDocument", {}, upload=Upload("document", str(path)))


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async with hostile(once(answer(OK))) as api:
        for _ in range(5):
            assert isinstance(await api.call("sendMessage", {"chat_id": 5, "text": "hi"}), Ok)
            await trio.testing.wait_all_tasks_blocked(0.01)


@pytest.mark.parametrize(
    ("told", "wait_s"),
    [
        (b"-5", 0),
        (b"0", 0),
        (b"1" + b"0" * 30, MOST_WAIT_S),
        (b"7", 7),
        (b"true", None),
        (b'"7"', None),
    ],
)
def test_a_wait_is_one_that_can_be_waited(told: bytes, wait_s: int | None) -> None:
    found = read_answer(429, b'{"ok":false,"error_code":429,"parameters":{"retry_after":%s}}' % told)

    assert isinstance(found, Refusal)
    assert found.retry_after_s == wait_s
    outcome = outcome_of(found, Address(5))
    assert isinstance(outcome, NotSent)
    assert outcome.retry_after_s is not None
    assert 0 <= outcome.retry_after_s <= MOST_WAIT_S


@pytest.mark.parametrize(
    "result",
    [{}, 7, "x", None, [1], [None, "x"], [{"update_id": "7"}], [{"update_id": True}], [[]]],
    ids=str,
)
async def test_a_page_without_an_id_is_asked_for_ever_more_slowly(
    result: Plain, autojump_clock: MockClock
) -> None:
    server, edge = Server(*[Ok(result)] * 50), Watched()
    await poll(server, edge, seconds=100)

    assert len(server.asked) < 12
    assert ("failing", "getUpdates told no id of an update") in [(state, why) for _, state, why in edge.said]
    assert edge.accepted == []


async def test_a_server_that_keeps_no_poll_open_is_not_asked_without_a_pause(
    autojump_clock: MockClock,
) -> None:
    server, edge = Server(*[Ok([])] * 1_000), Watched()
    await poll(server, edge, seconds=100)

    assert len(server.asked) <= 100 / EMPTY_S + 1
    assert edge.said == []


async def test_an_update_twice_in_a_page_is_told_twice_and_confirmed_once(autojump_clock: MockClock) -> None:
    server, edge = Server(Ok([update(7), update(7), update(8), update(7)])), Watched()
    await poll(server, edge)

    assert server.offsets == [None, 8]
    assert {one.platform_message_id for one in edge.accepted} == {"5:7", "5:8"}
