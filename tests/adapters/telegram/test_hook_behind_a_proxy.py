"""A web hook behind a reverse proxy that does as nginx does by default, with a prefix in front of the path.

It speaks HTTP/1.0 to the bot, sets `Host` and `Connection`, passes every other header on, and answers 502 by itself
while the bot is not there.
"""

from __future__ import annotations

import http.client
import json
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler
from typing import cast

import httpx
import trio

from shardline import Runtime
from shardline.adapters.telegram import Webhook
from shardline.adapters.telegram.api import HttpApi
from shardline.adapters.telegram.intake import Intake, Tally
from shardline.adapters.telegram.serving import serve_app
from shardline.adapters.telegram.update import Me, Reading
from shardline.adapters.telegram.webhook import WebhookApp
from shardline.testing import FakeEdge
from tests.adapters.telegram import samples
from tests.adapters.telegram.platform import echo_bot, open_platform
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_bot import LIMIT_S, quiet, store
from tests.kits.ports import kept_port

SECRET = "a-secret_of-tests"
PREFIX = "/bots/one"


class ReverseProxy(socketserver.ThreadingTCPServer):
    """In front of one port of this machine.

    Attributes:
        statuses: What it answered.
        has_refused: It has answered 502 by itself.
    """

    allow_reuse_address = True

    def __init__(self, upstream: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = upstream
        self.statuses: list[int] = []
        self.has_refused = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{PREFIX}/telegram"


class _Upstream(http.client.HTTPConnection):
    """Speaks the older HTTP, as nginx does where nobody says otherwise."""

    _http_vsn = 10
    _http_vsn_str = "HTTP/1.0"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        proxy = cast("ReverseProxy", self.server)
        body = self.rfile.read(int(self.headers["content-length"]))
        kept = {
            name: value for name, value in self.headers.items() if name.lower() not in {"host", "connection"}
        }
        sent = {
            "Host": f"127.0.0.1:{proxy.upstream}",
            "Connection": "close",
            "X-Forwarded-For": "149.154.167.220",
            "X-Forwarded-Host": "bot.example.org",
            "X-Forwarded-Proto": "https",
            **kept,
        }
        upstream = _Upstream("127.0.0.1", proxy.upstream, timeout=LIMIT_S)
        try:
            upstream.request("POST", self.path.removeprefix(PREFIX), body, sent)
            status = upstream.getresponse().status
        except OSError:
            status = 502
            proxy.has_refused.set()
        finally:
            upstream.close()
        proxy.statuses.append(status)
        with suppress(OSError):
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def reverse_proxy(upstream: int) -> Generator[ReverseProxy]:
    with ReverseProxy(upstream) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()


async def test_a_bot_behind_it_is_called_and_answers() -> None:
    port = kept_port()
    with reverse_proxy(port) as proxy:
        async with open_platform() as platform:
            hook = Webhook(secret=SECRET, url=proxy.url, port=port)
            for chat in (5, 6):
                platform.bot.say(chat, "hi")
            adapter = platform.adapter(webhook=hook)
            async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
                await quiet(runtime, lambda: len(platform.bot.sent()) == 2 and platform.bot.waiting == 0)

            assert platform.bot.webhook_url == proxy.url
            assert sorted((call.chat, call.text) for call in platform.bot.sent()) == [(5, "hi"), (6, "hi")]
        assert set(proxy.statuses) == {200}


async def test_what_came_while_the_bot_was_away_comes_again() -> None:
    """The proxy answers 502 for it; the platform knows the address from an earlier start."""
    port = kept_port()
    with reverse_proxy(port) as proxy:
        async with open_platform() as platform:
            api = HttpApi(TOKEN, base=platform.server.base)
            await api.call("setWebhook", {"url": proxy.url, "secret_token": SECRET})
            platform.bot.say(5, "hi")
            assert await trio.to_thread.run_sync(proxy.has_refused.wait, LIMIT_S)
            hook = Webhook(secret=SECRET, url=proxy.url, port=port)
            adapter = platform.adapter(webhook=hook)
            async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
                await quiet(runtime, lambda: len(platform.bot.sent()) == 1 and platform.bot.waiting == 0)
            await api.aclose()

            assert [call.text for call in platform.bot.sent()] == ["hi"]


async def test_the_secret_and_large_bodies_pass() -> None:
    edge = FakeEdge(channel="telegram", prefix="tg")
    intake = Intake(edge, Reading(me=Me(id=4200)), {}, Tally())
    app = WebhookApp(Webhook(secret=SECRET), intake)
    large = dict(samples.MESSAGE) | {"of_2030": "x" * 2_000_000}
    named = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
    async with trio.open_nursery() as nursery:
        [base] = await nursery.start(partial(serve_app, app, host="127.0.0.1", port=0))
        with reverse_proxy(int(base.rpartition(":")[2])) as proxy:
            async with httpx.AsyncClient(trust_env=False) as client:
                found = [
                    (await client.post(proxy.url, content=body, headers=headers)).status_code
                    for body, headers in (
                        (json.dumps(large), named),
                        (json.dumps(samples.MESSAGE), {}),
                        (json.dumps(samples.MESSAGE), {"X-Telegram-Bot-Api-Secret-Token": "another"}),
                    )
                ]
        nursery.cancel_scope.cancel()

    assert found == [200, 401, 401]
    assert len(edge.accepted) == 1
