"""A small HTTP server for `/metrics` and `/health`, on h11 and trio's own sockets. Needs the extra `metrics`.

h11 parses and writes HTTP/1.1 and does no I/O of its own: two addresses that are read need no framework, no second
event loop and no other settings. One request a connection, at most 64 at once, 10 seconds each; where one more comes,
the oldest goes: whoever asks at once is answered long before 64 more have come.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import h11
import trio

from ..actors.errors import BusError, Code
from ..actors.instants import rfc3339_from_us
from .health import HealthState
from .metrics import Metrics

if TYPE_CHECKING:
    from .app import Runtime

_REQUEST_S: Final = 10.0
_AT_ONCE: Final = 64
_READ_BYTES: Final = 4_096
_REST_S: Final = 2.0
_REST_BYTES: Final = 16 * 1024 * 1024
"""For how long, and how much, of a body that nobody wants is read: whoever sends it reads the answer behind it."""

_MIN_TOKEN_CHARS: Final = 8
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_JSON: Final = "application/json"

Answer = tuple[int, str, bytes]
"""Status, content type, body."""


@asynccontextmanager
async def watch_server(
    runtime: Runtime, *, token: str | None, host: str = "127.0.0.1", port: int = 9464, is_open: bool = False
) -> AsyncGenerator[int]:
    """Serve a runtime's metrics and health while the block runs.

    `GET /metrics` is the Prometheus text format; `GET /health` is JSON, 200 where the runtime is ok or degraded, else
    503. Both want `Authorization: Bearer <token>`.

    Args:
        runtime: Opened in this very trio run.
        token: At least 8 characters; never written anywhere.
        host: The address to listen on.
        port: 0 takes a free one.
        is_open: Nobody is asked for a token, and none is given.
    Yields:
        The port.
    Raises:
        BusError: NOT_AUTHORIZED, there is no token and it is not to be open, or both.
        OSError: The address cannot be listened on.
    """
    if is_open is (token is not None) or (token is not None and len(token) < _MIN_TOKEN_CHARS):
        raise BusError(
            Code.NOT_AUTHORIZED,
            "the watch server needs a token of at least 8 characters, or is_open=True without one",
        )
    pages = Pages(runtime, None if token is None else f"Bearer {token}".encode())
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise OSError(
            error.errno, f"metrics cannot be served on {host}, port {port}: {error.strerror}"
        ) from error
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_listeners, pages.serve, listeners)
        await nursery.start(serve)
        yield int(listeners[0].socket.getsockname()[1])
        nursery.cancel_scope.cancel()


class Pages:
    """Answers one request a connection."""

    def __init__(self, runtime: Runtime, authorization: bytes | None) -> None:
        self._runtime = runtime
        self._metrics: Metrics = runtime.metrics()
        self._authorization = authorization
        # The oldest first.
        self._open: dict[trio.CancelScope, None] = {}

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Answer, and close; a peer that goes, dawdles or talks something else is nobody's concern."""
        async with stream:
            if len(self._open) >= _AT_ONCE:
                # Else so many that say nothing, and come again as they are cut off, would keep everybody out.
                oldest = next(iter(self._open))
                del self._open[oldest]
                oldest.cancel()
            with trio.move_on_after(_REQUEST_S) as scope:
                self._open[scope] = None
                try:
                    await self._exchange(stream)
                except (OSError, trio.BrokenResourceError, h11.ProtocolError):
                    return
                finally:
                    self._open.pop(scope, None)

    async def _exchange(self, stream: trio.abc.Stream) -> None:
        connection = h11.Connection(h11.SERVER)
        try:
            request = await _request_of(connection, stream)
        except h11.RemoteProtocolError as error:
            await _send(connection, stream, (error.error_status_hint, _TEXT, b"bad request\n"))
        else:
            if request is None:
                return
            await _send(connection, stream, self._answer(request), is_head=request.method == b"HEAD")
            if request.method in {b"GET", b"HEAD"}:
                return
        await _read_rest(stream)

    def _answer(self, request: h11.Request) -> Answer:
        path = request.target.partition(b"?")[0]
        if path not in {b"/metrics", b"/health"}:
            return 404, _TEXT, b"there are /metrics and /health\n"
        if request.method not in {b"GET", b"HEAD"}:
            return 405, _TEXT, b"only GET\n"
        if self._authorization is not None:
            given = next((value for name, value in request.headers if name == b"authorization"), b"")
            if not hmac.compare_digest(given, self._authorization):
                return 401, _TEXT, b"a token is wanted: Authorization: Bearer ...\n"
        return (200, _TEXT, self._metrics.text()) if path == b"/metrics" else self._health()

    def _health(self) -> Answer:
        health = self._runtime.health()
        told = {
            "state": str(health.state),
            "reasons": [
                {
                    "word": reason.word,
                    "about": reason.about,
                    "state": str(reason.state),
                    "text": reason.text,
                    "action": reason.action,
                    "since": rfc3339_from_us(reason.since_us),
                }
                for reason in health.reasons
            ],
        }
        return 503 if health.state is HealthState.FAILING else 200, _JSON, json.dumps(told).encode() + b"\n"


async def _request_of(connection: h11.Connection, stream: trio.abc.Stream) -> h11.Request | None:
    """The head of a request; None where the peer goes before it is whole. A body is not read."""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(_READ_BYTES)))
        elif isinstance(event, h11.Request):
            return event
        else:
            return None


async def _read_rest(stream: trio.abc.Stream) -> None:
    """Let the peer send what it has under way: closing on unread bytes is a reset, which takes the answer from it."""
    if isinstance(stream, trio.abc.HalfCloseableStream):
        await stream.send_eof()
    left = _REST_BYTES
    with trio.move_on_after(_REST_S):
        while left > 0:
            read = await stream.receive_some(65_536)
            if not read:
                return
            left -= len(read)


async def _send(
    connection: h11.Connection, stream: trio.abc.Stream, answer: Answer, *, is_head: bool = False
) -> None:
    status, kind, body = answer
    headers = [
        ("Content-Type", kind),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        ("Connection", "close"),
    ]
    if status == 401:
        headers.append(("WWW-Authenticate", "Bearer"))
    data = connection.send(h11.Response(status_code=status, headers=headers)) or b""
    if not is_head:
        data += connection.send(h11.Data(data=body)) or b""
    await stream.send_all(data)


__all__ = ["watch_server"]
