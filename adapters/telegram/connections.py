"""The connections to one server: the one used last is used next, and a request has one of its own while it runs.

Over a parser in C, and not those of httpx: they cost four times as much for each request
(docs/explanation/performance.md).
"""

from __future__ import annotations

import re
import ssl
import time
from collections import deque
from typing import Final

import httpx
import trio

from .connection import Connection, connect
from .direct import Direct
from .failures import NotConnected
from .watch import HAS_WATCH, Watch

CONNECT_S: Final = 10.0
WRITE_S: Final = 20.0
POOL_S: Final = 20.0
CONNECTIONS: Final = 72
"""More than the sends under way at once: a poll, typing signs and answers to buttons need some as well."""
IDLE_S: Final = 5.0
"""How long an unused connection is kept: servers close theirs, and a request that crosses such a close is uncertain."""
WHOLE_S: Final = 60.0
"""How long an answer may take beyond the wait for its first part."""
_TARGET = re.compile(rb"/[!-~]*")


class Connections:
    """Up to `CONNECTIONS` connections, made when they are needed. Close them with `aclose`.

    Args:
        base: Address of the server.
        tls: For https.
    """

    def __init__(self, base: httpx.URL, tls: ssl.SSLContext) -> None:
        is_secure = base.scheme == "https"
        self._server = base.raw_host.decode("ascii"), base.port or (443 if is_secure else 80)
        self._head = (
            b" HTTP/1.1\r\nhost: %b\r\ncontent-type: application/json\r\ncontent-length: " % base.netloc
        )
        self._tls = tls if is_secure else None
        if is_secure:
            tls.set_alpn_protocols(["http/1.1"])
        self._free = trio.Semaphore(CONNECTIONS)
        self._idle: deque[Connection | Direct] = deque()
        self._watch = Watch() if HAS_WATCH and not is_secure else None

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
        if _TARGET.fullmatch(target) is None:
            raise NotConnected("this can be no path")
        request = b"POST %b%b%d\r\n\r\n%b" % (target, self._head, len(body), body)
        try:
            self._free.acquire_nowait()
        except trio.WouldBlock:
            await self._wait_turn()
        try:
            connection = await self._idle_one()
            if connection is None:
                connection = await connect(*self._server, self._tls, connect_s=CONNECT_S, watch=self._watch)
            try:
                answer = await connection.ask(request, write_s=WRITE_S, read_s=read_s, whole_s=WHOLE_S)
            finally:
                if connection.is_reusable:
                    self._idle.append(connection)
                else:
                    await connection.aclose()
            while self._idle and _is_stale(self._idle[0]):
                await self._idle.popleft().aclose()
            return answer
        finally:
            self._free.release()

    async def aclose(self) -> None:
        """Close the unused ones; a later request opens new ones."""
        while self._idle:
            await self._idle.pop().aclose()

    async def _wait_turn(self) -> None:
        with trio.move_on_after(POOL_S):
            await self._free.acquire()
            return
        raise NotConnected("all connections are in use")

    async def _idle_one(self) -> Connection | Direct | None:
        while self._idle:
            connection = self._idle.pop()
            is_usable = False
            try:
                is_usable = not _is_stale(connection) and await connection.is_quiet()
            finally:
                # A call may be cancelled while it looks.
                if not is_usable:
                    await connection.aclose()
            if is_usable:
                return connection
        return None


def _is_stale(connection: Connection | Direct) -> bool:
    return time.monotonic() > connection.idle_since_s + IDLE_S


__all__ = ["CONNECTIONS", "CONNECT_S", "IDLE_S", "POOL_S", "WHOLE_S", "WRITE_S", "Connections"]
