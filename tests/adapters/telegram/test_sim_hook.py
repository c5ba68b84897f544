"""The server of the tests calls a web hook as the platform does: with the secret, and until the update is taken."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from shardline import Runtime
from shardline.adapters.telegram import Webhook
from shardline.adapters.telegram.api import HttpApi
from shardline.adapters.telegram.sim.hook import hook_of
from tests.adapters.telegram.platform import echo_bot, open_platform
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_bot import LIMIT_S, quiet, store
from tests.adapters.telegram.test_hostile import answer
from tests.kits.ports import kept_port

SECRET = "s3cret"


async def test_a_bot_with_a_web_hook_is_called_and_answers() -> None:
    async with open_platform() as platform:
        port = kept_port()
        hook = Webhook(secret=SECRET, url=f"http://127.0.0.1:{port}/telegram", port=port)
        for chat in (5, 6, 7):
            platform.bot.say(chat, "hi")
        adapter = platform.adapter(webhook=hook)
        async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
            await quiet(runtime, lambda: len(platform.bot.sent()) == 3)
            platform.bot.say(5, "again")
            await quiet(runtime, lambda: len(platform.bot.sent()) == 4 and platform.bot.waiting == 0)

        assert sorted((call.chat, call.text) for call in platform.bot.sent()) == [
            (5, "again"),
            (5, "hi"),
            (6, "hi"),
            (7, "hi"),
        ]


async def test_what_is_not_taken_comes_again_with_the_secret() -> None:
    heads: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            heads.append(bytes(await stream.receive_some()))
            status = [b"503 Busy", b"401 No", b"200 OK"][len(heads) - 1]
            await stream.send_all(answer(b"", status=status))

    async with open_platform() as platform, trio.open_nursery() as nursery:
        port = kept_port()
        await nursery.start(partial(trio.serve_tcp, serve, port, host="127.0.0.1"))
        api = HttpApi(TOKEN, base=platform.server.base)
        await api.call("setWebhook", {"url": f"http://127.0.0.1:{port}/hook", "secret_token": SECRET})
        platform.bot.say(5, "hi")
        with trio.fail_after(LIMIT_S):
            await platform.bot.wait_confirmed()
        await api.call("deleteWebhook", {})
        platform.bot.say(5, "nobody is told")
        await api.aclose()
        nursery.cancel_scope.cancel()

    assert len(heads) == 3
    assert all(b"\r\nx-telegram-bot-api-secret-token: s3cret\r\n" in head for head in heads)
    assert all(head.startswith(b"POST /hook HTTP/1.1\r\n") for head in heads)


@pytest.mark.parametrize("url", ["https://bot.example/telegram", "http://bot.example:80/", "http://[", ""])
def test_nobody_but_this_machine_is_called(url: str) -> None:
    assert hook_of(url) is None
