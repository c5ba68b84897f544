"""Calls through a proxy of its own threads, to a server with and without TLS: polls, texts, files, and refusals."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.telegram import Telegram
from shardline.adapters.telegram.api import HttpApi, NeverSent, NoAnswer
from shardline.adapters.telegram.calls import Upload
from shardline.adapters.telegram.sim.bot import SimBot
from shardline.adapters.telegram.sim.script import Fault
from shardline.adapters.telegram.sim.server import open_sim
from shardline.content import Media
from shardline.storage.records import OutboxState
from tests.adapters.telegram.platform import FREE
from tests.adapters.telegram.proxy_server import Mood, open_proxy
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_bot import LIMIT_S, quiet, store
from tests.adapters.telegram.test_connection import CERTIFICATE

NAME = "me:s3cr3t"
SCHEMES = pytest.mark.parametrize("scheme", ["http", "https"])


@asynccontextmanager
async def platform(scheme: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[tuple[SimBot, str]]:
    """The server of the tests; gives the bot and the address."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    async with open_sim() as server:
        if scheme == "http":
            yield server.bot(TOKEN), server.base
            return
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(CERTIFICATE)

        async def serve(stream: trio.SSLStream[trio.SocketStream]) -> None:
            # What it does with a stream every stream can.
            await server.serve(cast("trio.SocketStream", stream))

        async with trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            secure = trio.SSLListener(listener, context, https_compatible=True)
            nursery.start_soon(trio.serve_listeners, serve, [secure])
            port = cast("tuple[str, int]", listener.socket.getsockname())[1]
            yield server.bot(TOKEN), f"https://127.0.0.1:{port}"
            nursery.cancel_scope.cancel()


@SCHEMES
async def test_a_bot_behind_a_proxy_reads_answers_and_sends_files(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "report.bin").write_bytes(bytes(300_000))
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("here it is")
        ctx.reply(Media("document", path=str(tmp_path / "report.bin"), caption="of today"))

    with open_proxy(wants=NAME) as proxy:
        async with platform(scheme, monkeypatch) as (bot, base):
            bot.say(5, "the report")
            adapter = Telegram(TOKEN, api_base=base, proxy=proxy.address(NAME), limits=FREE)
            async with Runtime.open(topology, store=store(), adapters=[adapter]) as runtime:
                await quiet(runtime, lambda: len(bot.sent()) == 2)
                rows = [row.record.state for row in runtime.outbox.list()]
            await adapter.aclose()

        assert rows == [OutboxState.SENT, OutboxState.SENT]
        assert [call.text for call in bot.sent()] == ["here it is", "of today"]
        assert bot.sent()[1].fields["document"] == "file:report.bin:300000"
        begins = f"POST {base}/bot" if scheme == "http" else f"CONNECT {base.removeprefix('https://')} "
        assert {line[: len(begins)] for line in proxy.lines} == {begins}
        assert set(proxy.names) == {NAME}
        assert "s3cr3t" not in caplog.text + repr(adapter)
        assert TOKEN not in caplog.text


@SCHEMES
@pytest.mark.parametrize("mood", ["refuse", "close"])
@pytest.mark.parametrize("is_file", [False, True])
async def test_a_proxy_that_opens_no_way_was_handed_nothing(
    scheme: str,
    mood: Mood,
    is_file: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of a call that it has taken over whole, and then says nothing about, nobody knows."""
    caplog.set_level(logging.DEBUG)
    (tmp_path / "a").write_bytes(b"x")
    upload = Upload("document", str(tmp_path / "a")) if is_file else None
    with open_proxy(mood) as proxy:
        async with platform(scheme, monkeypatch) as (bot, base):
            api = HttpApi(TOKEN, base=base, proxy=proxy.address(NAME))
            with trio.fail_after(LIMIT_S), pytest.raises(Exception, match="no ") as caught:
                await api.call("sendMessage", {"chat_id": 5, "text": "hi"}, upload=upload)
            await api.aclose()

        assert bot.calls == []
        is_known = mood == "refuse" or scheme == "https"
        assert type(caught.value).__name__ == ("NeverSent" if is_known else "NoAnswer")
        assert ("407" in str(caught.value)) is (mood == "refuse")
        assert "s3cr3t" not in f"{caught.value!r}{caplog.text}"
        assert proxy.names == [NAME]


async def test_a_proxy_that_says_nothing_was_handed_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_proxy("stall") as proxy:
        async with platform("https", monkeypatch) as (_, base):
            api = HttpApi(TOKEN, base=base, proxy=proxy.address())
            with trio.fail_after(LIMIT_S), pytest.raises(NeverSent, match="ReadTimeout"):
                await api.call("sendMessage", {"chat_id": 5, "text": "hi"}, read_s=1.5)
            await api.aclose()


async def test_nobody_listens_where_the_proxy_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_proxy() as proxy:
        address = proxy.address(NAME)
    for base in ("http://127.0.0.1:9", "https://127.0.0.1:9"):
        api = HttpApi(TOKEN, base=base, proxy=address)
        with pytest.raises(NeverSent, match="ConnectError") as caught:
            await api.call("getMe", {})
        await api.aclose()
        assert "s3cr3t" not in repr(caught.value)


async def test_a_broken_call_over_an_open_way_is_not_taken_for_unsent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The way is open: also over a connection that was used before, what leaves may arrive."""
    (tmp_path / "a").write_bytes(b"x")
    with open_proxy() as proxy:
        async with platform("https", monkeypatch) as (bot, base):
            api = HttpApi(TOKEN, base=base, proxy=proxy.address())
            direct = HttpApi(TOKEN, base=base)
            for one, upload in ((api, None), (api, None), (direct, Upload("document", str(tmp_path / "a")))):
                await one.call("getMe", {})
                bot.add_fault(Fault(method="*", kind="drop_after"))
                with pytest.raises(NoAnswer):
                    await one.call("sendDocument", {"chat_id": 5, "text": "hi"}, upload=upload)
            await api.aclose()
            await direct.aclose()

        assert len(bot.sent()) == 3
