"""The connections to one server: the one used last is used next, and a request has one of its own while it runs.

They are those of httpcore, under httpx; only its pool is left out, which looks at each of its connections several times
for each request: with some dozens of sends in flight that costs more than all the rest of a message
(docs/explanation/performance.md).
"""

from __future__ import annotations

import contextlib
import ssl
from collections import deque
from typing import Final

import httpcore
import httpx
import trio

from .bodies import Body, body_of, close_soon

CONNECT_S: Final = 10.0
WRITE_S: Final = 20.0
POOL_S: Final = 20.0
CONNECTIONS: Final = 32
IDLE_S: Final = 5.0
"""How long an unused connection is kept: servers close theirs, and a request that crosses such a close is uncertain."""
WHOLE_S: Final = 60.0
"""How long the body of an answer may take; its head, as long beyond its first byte."""

_UNSENT = (
    httpcore.ConnectError,
    httpcore.ConnectTimeout,
    httpcore.UnsupportedProtocol,
    httpcore.LocalProtocolError,
)
"""Raised before the first byte of a request leaves."""
_BROKEN = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.RemoteProtocolError, trio.TooSlowError)
_HEADERS: Final = ((b"content-type", b"application/json"),)


class NotConnected(Exception):
    """There is no connection: no byte of the request has left."""


class Broken(Exception):
    """There is no complete answer, and something may have left. The text holds no address and no token."""


class Connections:
    """Up to `CONNECTIONS` connections, made when they are needed. Close them with `aclose`.

    Args:
        base: Address of the server.
        tls: For https.
    """

    def __init__(self, base: httpx.URL, tls: ssl.SSLContext) -> None:
        is_secure = base.scheme == "https"
        self._origin = httpcore.Origin(
            base.raw_scheme, base.raw_host, base.port or (443 if is_secure else 80)
        )
        self._host = (b"host", base.netloc)
        self._tls = tls if is_secure else None
        self._free = trio.Semaphore(CONNECTIONS)
        self._idle: deque[httpcore.AsyncHTTPConnection] = deque()

    async def ask(self, target: bytes, body: bytes, *, read_s: float) -> tuple[int, bytes]:
        """Make one request, and wait for all of its answer.

        Args:
            target: The path.
            body: JSON.
            read_s: How long to wait for each part of the answer, seconds; for all of it `WHOLE_S` more at most.
        Returns:
            The status and the body.
        Raises:
            NotConnected: Nothing has left.
            Broken: Something may have left, and there is no complete answer.
        """
        await self._take_turn()
        try:
            request = httpcore.Request(
                b"POST",
                httpcore.URL(
                    scheme=self._origin.scheme, host=self._origin.host, port=self._origin.port, target=target
                ),
                headers=(self._host, *_HEADERS, (b"content-length", b"%d" % len(body))),
                content=Body((body,)),
                extensions={"timeout": {"connect": CONNECT_S, "write": WRITE_S, "read": read_s}},
            )
            connection = await self._idle_one() or httpcore.AsyncHTTPConnection(
                self._origin, self._tls, keepalive_expiry=IDLE_S
            )
            answer = await _exchange(connection, request, whole_s=CONNECT_S + WRITE_S + read_s + WHOLE_S)
            if connection.is_idle():
                self._idle.append(connection)
            await self._close_stale()
            return answer
        finally:
            self._free.release()

    async def aclose(self) -> None:
        """Close the unused ones; a later request opens new ones."""
        while self._idle:
            await self._idle.pop().aclose()

    async def _take_turn(self) -> None:
        with contextlib.suppress(trio.WouldBlock):
            self._free.acquire_nowait()
            return
        with trio.move_on_after(POOL_S):
            await self._free.acquire()
            return
        raise NotConnected("all connections are in use")

    async def _idle_one(self) -> httpcore.AsyncHTTPConnection | None:
        while self._idle:
            connection = self._idle.pop()
            # Also one that the server has closed, or where it said something unasked.
            if not connection.has_expired():
                return connection
            await connection.aclose()
        return None

    async def _close_stale(self) -> None:
        while self._idle and self._idle[0].has_expired():
            await self._idle.popleft().aclose()


async def _exchange(
    connection: httpcore.AsyncHTTPConnection, request: httpcore.Request, *, whole_s: float
) -> tuple[int, bytes]:
    # `from None` throughout: the errors below have the request, whose address has the token.
    try:
        with trio.fail_after(whole_s):
            response = await connection.handle_async_request(request)
            with trio.fail_after(WHOLE_S):
                body = await body_of(response.aiter_stream(), connection.aclose)
            await response.aclose()
            return response.status, body
    except _UNSENT as error:
        await close_soon(connection.aclose)
        raise NotConnected(type(error).__name__) from None
    except _BROKEN as error:
        await close_soon(connection.aclose)
        raise Broken(type(error).__name__) from None
    except BaseException:
        await close_soon(connection.aclose)
        raise


__all__ = [
    "CONNECTIONS",
    "CONNECT_S",
    "IDLE_S",
    "POOL_S",
    "WHOLE_S",
    "WRITE_S",
    "Broken",
    "Connections",
    "NotConnected",
]
