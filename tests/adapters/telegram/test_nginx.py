"""The web hook behind a real nginx, with the blocks of the how-to as they stand there."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

import attrs
import httpx
import pytest
import trio

from shardline import Runtime
from shardline.adapters.telegram import Webhook
from shardline.adapters.telegram.api import HttpApi
from tests.adapters.telegram import samples
from tests.adapters.telegram.platform import echo_bot, open_platform
from tests.adapters.telegram.samples import TOKEN
from tests.adapters.telegram.test_bot import LIMIT_S, quiet, store
from tests.adapters.telegram.test_connection import CERTIFICATE
from tests.kits.ports import kept_port

HOW_TO: Final = Path(__file__).parents[3] / "docs/how-to/telegram-webhook.md"
NGINX: Final = shutil.which("nginx", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
SECRET: Final = "a-secret_of-tests"
NAMED: Final = {"X-Telegram-Bot-Api-Secret-Token": SECRET}
CONFIG: Final = """
daemon off;
user {user};
pid nginx.pid;
error_log errors.log;
events {{ worker_connections 64; }}
http {{
    access_log statuses.log combined;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{plain};
        listen 127.0.0.1:{tls} ssl;
        ssl_certificate {certificate};
        ssl_certificate_key {certificate};
        {blocks}
    }}
}}
"""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed: its stand-in is tested without it"),
]


@attrs.frozen
class Nginx:
    """It runs.

    Attributes:
        plain, tls: The addresses that it listens on.
    """

    plain: str
    tls: str
    _folder: Path

    def statuses(self) -> list[str]:
        """What it answered so far."""
        log = self._folder / "statuses.log"
        # It makes the file when it starts.
        found = re.findall(r'" ([0-9]{3}) [0-9]+ "', log.read_text() if log.exists() else "")
        return cast("list[str]", found)


def blocks(bot: int) -> str:
    """Those of the how-to, for a bot at this port."""
    found = re.findall(r"```nginx\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    assert len(found) == 2
    return "\n".join(found).replace("127.0.0.1:8443", f"127.0.0.1:{bot}")


@asynccontextmanager
async def nginx(bot: int, folder: Path) -> AsyncGenerator[Nginx]:
    assert NGINX is not None
    with socket.create_server(("127.0.0.1", 0)) as plain, socket.create_server(("127.0.0.1", 0)) as tls:
        ports = [cast("tuple[str, int]", one.getsockname())[1] for one in (plain, tls)]
        config = CONFIG.format(
            # Its workers would be nobody, who may not enter the folder.
            user=pwd.getpwuid(os.getuid()).pw_name,
            plain=ports[0],
            tls=ports[1],
            certificate=CERTIFICATE,
            blocks=blocks(bot),
        )
        (folder / "nginx.conf").write_text(config)
        # It takes sockets over that listen already, as from an older nginx: nobody waits, and no port is guessed.
        process = await trio.lowlevel.open_process(
            [NGINX, "-p", str(folder), "-c", "nginx.conf"],
            env=os.environ | {"NGINX": f"{plain.fileno()};{tls.fileno()};"},
            pass_fds=(plain.fileno(), tls.fileno()),
            stderr=subprocess.DEVNULL,
        )
    try:
        yield Nginx(f"http://127.0.0.1:{ports[0]}", f"https://127.0.0.1:{ports[1]}", folder)
    finally:
        process.terminate()
        with trio.fail_after(LIMIT_S, shield=True):
            await process.wait()


@pytest.mark.parametrize("path", ["/telegram", "/bots/one/telegram"])
async def test_a_bot_is_called_and_what_came_while_it_was_away_comes_again(path: str, tmp_path: Path) -> None:
    port = kept_port()
    async with nginx(port, tmp_path) as proxy, open_platform() as platform:
        api = HttpApi(TOKEN, base=platform.server.base)
        await api.call("setWebhook", {"url": proxy.plain + path, "secret_token": SECRET})
        await api.aclose()
        platform.bot.say(5, "hi")
        with trio.fail_after(LIMIT_S):
            while "502" not in proxy.statuses():
                await trio.lowlevel.checkpoint()
        hook = Webhook(secret=SECRET, url=proxy.plain + path, port=port)
        adapter = platform.adapter(webhook=hook)
        async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
            platform.bot.say(6, "hi")
            await quiet(runtime, lambda: len(platform.bot.sent()) == 2 and platform.bot.waiting == 0)

        assert sorted((call.chat, call.text) for call in platform.bot.sent()) == [(5, "hi"), (6, "hi")]
    assert set(proxy.statuses()) == {"502", "200"}


async def test_the_secret_and_large_bodies_pass_behind_tls(tmp_path: Path) -> None:
    port = kept_port()
    large = [
        json.dumps(dict(samples.MESSAGE) | {"update_id": number, "of_2030": "x" * size})
        for number, size in ((1, 3_500_000), (2, 4_500_000), (3, 3_500_000))
    ]
    small = json.dumps(samples.MESSAGE)
    context = ssl.create_default_context(cafile=str(CERTIFICATE))
    async with nginx(port, tmp_path) as proxy, open_platform() as platform:
        adapter = platform.adapter(webhook=Webhook(secret=SECRET, port=port))
        async with Runtime.open(echo_bot(), store=store(), adapters=[adapter]) as runtime:
            async with httpx.AsyncClient(trust_env=False, verify=context, timeout=LIMIT_S) as client:
                found = [
                    (await client.post(proxy.tls + path, content=body, headers=headers)).status_code
                    for path, body, headers in (
                        ("/telegram", small, NAMED),
                        ("/telegram", large[0], NAMED),
                        ("/telegram", large[1], NAMED),
                        ("/telegram", small, {}),
                        ("/bots/one/telegram", large[2], NAMED),
                        ("/bots/two/telegram", small, NAMED),
                    )
                ]
            # The same message each time, under several numbers.
            await quiet(runtime, lambda: len(platform.bot.sent()) == 1)

    assert found == [200, 200, 413, 401, 200, 404]
