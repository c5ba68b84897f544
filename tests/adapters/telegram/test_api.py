"""What left and what came back is told apart, and the token shows nowhere."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import pytest
import trio

from shardline.actors.errors import BusError, Code
from shardline.adapters.telegram import Telegram, Webhook
from shardline.adapters.telegram.api import CallFailed, HttpApi, NeverSent, NoAnswer
from shardline.adapters.telegram.calls import Upload
from shardline.adapters.telegram.sim.script import Fault, FaultKind
from shardline.adapters.telegram.wire import Ok, Refusal
from tests.adapters.telegram.platform import open_platform
from tests.adapters.telegram.samples import TOKEN

SECRET = TOKEN.partition(":")[2]


async def test_a_call_is_answered() -> None:
    async with open_platform() as platform:
        api = HttpApi(TOKEN, base=platform.server.base + "/")
        for _ in range(3):
            answer = await api.call("sendMessage", {"chat_id": 5, "text": "né 😀"})
            assert isinstance(answer, Ok)
        await api.aclose()

        assert [call.text for call in platform.bot.sent(5)] == ["né 😀"] * 3


async def test_a_file_goes_along(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 100_000)
    async with open_platform() as platform:
        api = HttpApi(TOKEN, base=platform.server.base)
        upload = Upload("document", str(tmp_path / "a.txt"), "näme.txt")
        answer = await api.call("sendDocument", {"chat_id": 5, "caption": "here"}, upload=upload)
        await api.aclose()

        [call] = platform.bot.sent(5)
        assert isinstance(answer, Ok)
        assert call.fields["document"] == "file:näme.txt:100000"
        assert call.text == "here"


async def test_a_file_that_is_gone_or_a_link_was_never_sent(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    api = HttpApi(TOKEN, base="http://127.0.0.1:9")
    for name in ("gone", "link", "."):
        with pytest.raises(NeverSent):
            await api.call("sendDocument", {}, upload=Upload("document", str(tmp_path / name)))
    await api.aclose()


async def test_a_refused_connection_was_never_sent() -> None:
    async with open_platform() as platform:
        base = platform.server.base
    api = HttpApi(TOKEN, base=base)
    with pytest.raises(NeverSent) as caught:
        await api.call("sendMessage", {"chat_id": 5, "text": "hi"})
    await api.aclose()

    assert str(caught.value) == "no connection: ConnectionRefusedError"
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert SECRET not in repr(vars(caught.value))


@pytest.mark.parametrize("kind", ["drop", "drop_after", "half", "html", "hang"])
async def test_what_may_have_left_has_no_answer(kind: FaultKind) -> None:
    async with open_platform() as platform:
        platform.bot.add_fault(Fault(method="sendMessage", kind=kind, code=502))
        api = HttpApi(TOKEN, base=platform.server.base)
        with pytest.raises(NoAnswer) as caught:
            await api.call("sendMessage", {"chat_id": 5, "text": "hi"}, read_s=2 if kind == "hang" else 60)
        await api.aclose()

        assert SECRET not in "".join(traceback.format_exception(caught.value))
        assert len(platform.bot.sent()) == (kind in {"drop_after", "half", "hang"})


async def test_the_token_is_in_no_log_and_no_repr(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x")
    async with open_platform() as platform:
        fault = Fault(method="getMe", kind="refuse", code=400, description=f"no bot {TOKEN} here")
        platform.bot.add_fault(fault)
        with caplog.at_level(logging.DEBUG):
            api = HttpApi(TOKEN, base=platform.server.base)
            answer = await api.call("getMe", {})
            await api.call("getMe", {})
            await api.call("sendDocument", {"chat_id": 5}, upload=Upload("document", str(tmp_path / "a.txt")))
        adapter = platform.open()

        assert answer == Refusal(code=400, description="no bot … here")
        assert caplog.records
        assert SECRET not in caplog.text
        assert SECRET not in repr(api) + repr(adapter) + str(adapter)
        await api.aclose()


@pytest.mark.parametrize("token", ["", "nobody's", "12:", ":abc", "12:a/../b", "12:a b", "１２:abc"])
def test_what_can_be_no_token_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(BusError) as caught:
        Telegram(token)

    assert caught.value.code is Code.BAD_TOKEN
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize(
    "base",
    [
        "",
        "ftp://x",
        "https://",
        "http://me:pw@host",
        "http://host/?q",
        "http://[::1",
        "http://host:abc",
        "http://host:99999",
        "http://two..dots",
        "http://" + "a" * 64,
        "http://host\r\nx: y",
    ],
)
def test_what_can_be_no_base_is_refused(base: str) -> None:
    with pytest.raises(BusError) as caught:
        Telegram(TOKEN, api_base=base)

    assert caught.value.code is Code.INVALID_MESSAGE
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["", "ftp://me:pw@host", "http://", "http://host:abc", "http://two..dots"])
def test_what_can_be_no_proxy_is_refused(proxy: str) -> None:
    with pytest.raises(BusError, match="the proxy") as caught:
        Telegram(TOKEN, proxy=proxy)

    assert caught.value.code is Code.INVALID_MESSAGE
    assert "pw" not in str(caught.value)


def test_a_web_hook_without_a_secret_does_not_start() -> None:
    for secret in ("", "ä", "a" * 257, "a b"):
        with pytest.raises(BusError):
            Webhook(secret=secret)

    assert "s3cret" not in repr(Webhook(secret="s3cret"))


async def test_many_calls_share_the_connections() -> None:
    async with open_platform() as platform:
        api = HttpApi(TOKEN, base=platform.server.base)
        failed: list[CallFailed] = []

        async def call(number: int) -> None:
            try:
                await api.call("sendMessage", {"chat_id": number, "text": "x"})
            except CallFailed as error:
                failed.append(error)

        async with trio.open_nursery() as nursery:
            for number in range(1, 101):
                nursery.start_soon(call, number)
        await api.aclose()

        assert failed == []
        assert len(platform.bot.sent()) == 100
