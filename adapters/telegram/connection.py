"""One connection to a server: a request, all of its answer, then the next request. HTTP/1.1 as httptools reads it.

The parser is that of Node.js (llhttp), without any of its leniencies.
"""

from __future__ import annotations

import contextlib
import math
import ssl
from typing import Final

import httptools
import trio

from ...actors.leaves import leaves
from .bodies import close_soon
from .wire import MAX_ANSWER_BYTES

MAX_HEAD_BYTES: Final = 100 * 1024
_READ_BYTES: Final = 65_536
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
"""The heads that say where a body ends; where neither is there, it ends with the connection."""


class NotConnected(Exception):
    """There is no connection: no byte of the request has left."""


class Broken(Exception):
    """There is no complete answer, and something may have left. The text holds no address and no token."""


class Connection:
    """Made by `connect`; close it with `aclose`.

    Args:
        stream: To the server.
        socket: Under it.
    """

    def __init__(
        self, stream: trio.SocketStream | trio.SSLStream[trio.SocketStream], socket: trio.SocketStream
    ):
        self._stream = stream
        self._socket = socket.socket
        self._reader = _Reader()
        self.idle_since_s = math.nan
        """Since when it waits for its next request, on trio's clock; not a number where it takes no more."""

    @property
    def is_reusable(self) -> bool:
        """Whether the last answer was whole, and the server keeps the connection."""
        return not math.isnan(self.idle_since_s)

    async def ask(
        self, request: bytes, *, write_s: float, read_s: float, whole_s: float
    ) -> tuple[int, bytes]:
        """Send a request, and wait for all of its answer.

        Args:
            request: Head and body.
            write_s: For sending it, seconds.
            read_s: For each part of the answer.
            whole_s: For all of the answer beyond its first `read_s`.
        Returns:
            The status and the body.
        Raises:
            Broken: There is no complete answer. The connection must be closed, as after any exception.
        """
        self.idle_since_s = math.nan
        reader, stream = self._reader, self._stream
        reader.begin()
        try:
            with trio.fail_after(write_s) as scope:
                # A server may say why it closes before it has read all of a request.
                with contextlib.suppress(trio.BrokenResourceError):
                    await stream.send_all(request)
                now_s = trio.current_time()
                last_s = now_s + read_s + whole_s
                while not reader.is_complete:
                    scope.deadline = min(now_s + read_s, last_s)
                    reader.take(await stream.receive_some(_READ_BYTES))
                    now_s = trio.current_time()
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            raise Broken(type(error).__name__) from None
        if reader.is_kept:
            self.idle_since_s = now_s
        return reader.status, reader.body()

    async def is_quiet(self) -> bool:
        """Whether an idle connection has nothing to read: no end, and no word that nobody asked for."""
        if self._socket.is_readable():
            return False
        if isinstance(self._stream, trio.SSLStream):
            # What TLS has read already, and kept. Nothing is read from the socket in a scope that is over.
            with trio.CancelScope(deadline=-math.inf), contextlib.suppress(trio.BrokenResourceError):
                await self._stream.receive_some(1)
                return False
        return True

    async def aclose(self) -> None:
        """Close it, within a second; also in a call that is cancelled."""
        self.idle_since_s = math.nan
        await close_soon(self._stream.aclose)


async def connect(host: str, port: int, tls: ssl.SSLContext | None, *, connect_s: float) -> Connection:
    """Connect, and agree on TLS.

    Args:
        host, port: Of the server.
        tls: None for none.
        connect_s: For all of it, seconds.
    Raises:
        NotConnected: It cannot.
    """
    try:
        with trio.fail_after(connect_s):
            socket = await trio.open_tcp_stream(host, port)
            if tls is None:
                return Connection(socket, socket)
            stream = trio.SSLStream(socket, tls, server_hostname=host, https_compatible=True)
            try:
                await stream.do_handshake()
            except BaseException:
                await close_soon(socket.aclose)
                raise
            return Connection(stream, socket)
    except trio.BrokenResourceError as error:
        # Its cause says what was wrong with the certificate.
        raise NotConnected(type(error.__cause__ or error).__name__) from None
    except (OSError, trio.TooSlowError) as error:
        # Of several addresses the first one's; trio's own error says no more than that all have failed.
        raise NotConnected(type(next(leaves(error.__cause__ or error))).__name__) from None


class _Reader:
    """What the server says, answer by answer. Its public methods are called by the parser."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self.begin()

    def begin(self) -> None:
        """Be ready for an answer."""
        self.status = 0
        self.is_complete = False
        self.is_kept = False
        self._is_in_head = True
        self._has_end = False
        self._bytes = 0
        self._parts = []

    def body(self) -> bytes:
        """Of a complete answer."""
        return b"".join(self._parts)

    def take(self, data: bytes | bytearray) -> None:
        """Read on; nothing is the end of the connection.

        Raises:
            Broken: It is no HTTP, too much, or the end too early.
        """
        if not data:
            if self._is_in_head or self._has_end:
                raise Broken("the connection was closed")
            self.is_complete = True
            return
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.is_kept = False
            if not self.is_complete:
                raise Broken(type(error).__name__) from None
        if self._bytes > MAX_ANSWER_BYTES + MAX_HEAD_BYTES:
            raise Broken("the answer is too long")
        if self._is_in_head and self._bytes > MAX_HEAD_BYTES:
            raise Broken("the head of the answer is too long")

    def on_message_begin(self) -> None:
        """An answer begins. One that nobody asked for must not be taken for that of the next request."""
        if self.is_complete:
            self.is_kept = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of the head."""
        if name.lower() in _LENGTHS:
            self._has_end = True

    def on_headers_complete(self) -> None:
        """The head is whole."""
        if not self.is_complete:
            self.status = self._parser.get_status_code()
            self._is_in_head = False

    def on_body(self, part: bytes) -> None:
        """A part of the body."""
        if not self.is_complete:
            self._parts.append(part)

    def on_message_complete(self) -> None:
        """An answer is whole; one below 200 only says that there will be another."""
        if self.is_complete:
            return
        if self.status < 200:
            self._is_in_head = True
            self._has_end = False
            return
        self.is_complete = True
        self.is_kept = self._parser.should_keep_alive()


__all__ = ["MAX_HEAD_BYTES", "Broken", "Connection", "NotConnected", "connect"]
