"""The web hook: an ASGI application that stores an update and then says so, and the server that runs it.

The answer is 200 only behind the commit. What cannot be stored now is answered 503: the platform keeps it and comes
again. A handler's time has no part in it.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Literal, cast

import attrs
import trio

from ...actors.errors import BusError, Code, Permanence
from ...actors.message import MAX_RAW_BYTES
from ...actors.plain import Plain
from ...actors.strict_json import loads
from ..base import Inbound
from .api import Api
from .courtesy import Courtesy
from .health import Reports
from .intake import Intake
from .wire import Refusal

MAX_BODY_BYTES: Final = 4 * 1024 * 1024
HEADER: Final = b"x-telegram-bot-api-secret-token"
RETRY_S: Final = 5
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")
_UPDATE_ID = re.compile(rb'"update_id"\s*:\s*([0-9]{1,18})')

Message = dict[str, object]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


@attrs.frozen(kw_only=True, repr=False)
class Webhook:
    """Where the platform calls.

    Attributes:
        url: The public address, https; None leaves what is set at the platform.
        secret: 1 to 256 of A-Za-z0-9_-; calls without it are refused.
        host, port: Where the server listens.
        path: Of the calls.
        certfile, keyfile: For TLS of its own; without them a proxy in front does it.
        connections: The platform's calls at once, 1 to 100.
    Raises:
        BusError: INVALID_MESSAGE, a web hook without a secret, or with one that can be none, does not start.
    """

    secret: str
    url: str | None = None
    host: str = "127.0.0.1"
    port: int = 8443
    path: str = "/telegram"
    certfile: str | None = None
    keyfile: str | None = None
    connections: int = 40

    def __attrs_post_init__(self) -> None:
        if _SECRET.fullmatch(self.secret) is None:
            raise BusError(
                Code.INVALID_MESSAGE,
                "a web hook needs a secret of 1 to 256 of A-Za-z0-9_-: else anybody could write to the bot",
                field="secret",
            )
        if not self.path.startswith("/") or not 1 <= self.connections <= 100:
            raise BusError(Code.INVALID_MESSAGE, "a path begins with /, and connections are 1 to 100")

    def __repr__(self) -> str:
        return f"Webhook({self.host}:{self.port}{self.path})"


class WebhookApp:
    """The ASGI application.

    Args:
        hook: Its path and secret.
        intake: Where updates go.
    """

    def __init__(self, hook: Webhook, intake: Intake) -> None:
        self._path = hook.path
        self._secret = hook.secret.encode()
        self._intake = intake

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request, or the server's life."""
        match scope["type"]:
            case "lifespan":
                await _live(receive, send)
            case "http":
                status, headers = await self._serve(scope, receive)
                await send({"type": "http.response.start", "status": status, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
            case _:
                await send({"type": "websocket.close", "code": 1008})

    async def _serve(self, scope: Message, receive: Receive) -> tuple[int, list[tuple[bytes, bytes]]]:
        if scope["path"] != self._path:
            return 404, []
        if scope["method"] != "POST":
            return 405, [(b"allow", b"POST")]
        headers = dict(cast("Sequence[tuple[bytes, bytes]]", scope["headers"]))
        if not hmac.compare_digest(headers.get(HEADER, b""), self._secret):
            return 401, []
        body = await _body(receive)
        if body is None:
            return 413, []
        try:
            await self._store(body)
        except BusError as error:
            if error.code.permanence is Permanence.PERMANENT and error.code is not Code.BUS_CLOSED:
                # It would be the same the next time, and hold up all that comes behind it.
                return 200, []
            return 503, [(b"retry-after", str(RETRY_S).encode())]
        return 200, []

    async def _store(self, body: bytes) -> None:
        try:
            update = loads(body, limit_bytes=MAX_BODY_BYTES)
        except BusError:
            await self._keep(body)
            return
        try:
            await self._intake.take_one(update)
        except BusError as error:
            if error.code.permanence is not Permanence.PERMANENT or error.code is Code.BUS_CLOSED:
                raise
            await self._keep(body)

    async def _keep(self, body: bytes) -> None:
        """What breaks a rule is stored as it came, and parked."""
        found = _UPDATE_ID.search(body)
        if found is not None:
            name = f"update:{int(found[1])}:unreadable"
            await self._intake.take(Inbound.unknown(platform_message_id=name, raw=body[:MAX_RAW_BYTES]))


async def serve_webhook(
    hook: Webhook,
    api: Api,
    edge: Reports,
    intake: Intake,
    allowed: Sequence[str] | None,
    *,
    chance: Callable[[], float],
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen, tell the platform where, and serve until cancelled.

    A platform that cannot be reached may know the address from an earlier start: the bot counts as started then, and
    goes on trying to tell it.

    Raises:
        BusError: ADAPTER_FAILED, the platform refuses the web hook.
    """
    from .serving import serve_app  # noqa: PLC0415 (needs hypercorn, which a bot that polls does not)

    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(
                serve_app,
                WebhookApp(hook, intake),
                host=hook.host,
                port=hook.port,
                certfile=hook.certfile,
                keyfile=hook.keyfile,
            )
        )
        if hook.url is not None:
            fields: dict[str, Plain] = {
                "url": hook.url,
                "secret_token": hook.secret,
                "max_connections": hook.connections,
            }
            if allowed is not None:
                fields["allowed_updates"] = list[Plain](allowed)
            tell = Courtesy(lambda: api.call("setWebhook", fields), "the web hook is not set", edge, chance)
            answer = await tell.once()
            if answer is None:
                task_status.started()
                task_status = trio.TASK_STATUS_IGNORED
                answer = await tell.insist()
            if isinstance(answer, Refusal):
                raise BusError(Code.ADAPTER_FAILED, f"the web hook is refused: {answer.description}")
        task_status.started()


async def _body(receive: Receive) -> bytes | None:
    """All of it; None where it is too long."""
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        part = cast("bytes", event.get("body", b""))
        size += len(part)
        if size > MAX_BODY_BYTES:
            return None
        parts.append(part)
        if not event.get("more_body"):
            return b"".join(parts)


async def _live(receive: Receive, send: Send) -> None:
    while True:
        event = await receive()
        kind: Literal["startup", "shutdown"] = (
            "startup" if event["type"] == "lifespan.startup" else "shutdown"
        )
        await send({"type": f"lifespan.{kind}.complete"})
        if kind == "shutdown":
            return


__all__ = ["HEADER", "MAX_BODY_BYTES", "Webhook", "WebhookApp", "serve_webhook"]
