"""The server of the tests as the caller of a web hook: update by update, each until it is taken."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, urlsplit

import trio

from ....actors.plain import Plain
from ....actors.strict_json import dumps
from ..connection import connect
from ..failures import Broken, NotConnected
from .bot import SimBot

FIRST_WAIT_S: Final = 0.1
MOST_WAIT_S: Final = 60.0
_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 60.0
_HERE: Final = frozenset({"127.0.0.1", "localhost"})


def hook_of(url: str) -> SplitResult | None:
    """An address that the server may call: of this machine alone, without TLS. None for any other."""
    try:
        parts = urlsplit(url)
        return parts if parts.scheme == "http" and parts.hostname in _HERE and parts.port else None
    except ValueError:
        return None


async def call_hook(bot: SimBot, hook: SplitResult, secret: str) -> None:
    """Tell a bot its updates until cancelled; what is not answered 2xx comes again, ever later."""
    wait_s = FIRST_WAIT_S
    while True:
        update = await bot.next_update()
        if await _is_taken(dumps(dict[str, Plain](update)).encode(), hook, secret):
            bot.take(update)
            wait_s = FIRST_WAIT_S
        else:
            await trio.sleep(wait_s)
            wait_s = min(wait_s * 2, MOST_WAIT_S)


async def _is_taken(body: bytes, hook: SplitResult, secret: str) -> bool:
    head = (
        f"POST {hook.path or '/'} HTTP/1.1\r\nhost: {hook.netloc}\r\ncontent-type: application/json\r\n"
        f"x-telegram-bot-api-secret-token: {secret}\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    try:
        connection = await connect(hook.hostname or "", hook.port or 0, None, connect_s=_CONNECT_S)
    except NotConnected:
        return False
    try:
        status, _ = await connection.ask(
            head.encode() + body, write_s=_CONNECT_S, read_s=_ANSWER_S, whole_s=0.0
        )
    except Broken:
        return False
    finally:
        await connection.aclose()
    return 200 <= status < 300


__all__ = ["FIRST_WAIT_S", "MOST_WAIT_S", "call_hook", "hook_of"]
