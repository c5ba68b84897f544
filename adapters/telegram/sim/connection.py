"""One client's connection to the server of the tests: whole requests in, whole answers or halves of them out."""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs
import httptools
import trio

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_MAX_HEAD_BYTES: Final = 100 * 1024
_READ_BYTES: Final = 65_536


class Closed(Exception):
    """The connection is to be closed without another word."""


@attrs.frozen
class Request:
    """One request.

    Attributes:
        target: Its path and query.
        kind: Of its body, as its head says.
        body: All of it.
        is_last: The client wants the connection closed behind the answer.
    """

    target: str
    kind: str
    body: bytes
    is_last: bool


class SimConnection:
    """Requests one after the other.

    Args:
        stream: To the client.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._requests = deque[Request]()
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._kind = b""
        self._parts: list[bytes] = []
        self._bytes = 0

    async def read_request(self) -> Request | None:
        """The next request; None where the client has gone.

        Raises:
            Closed: It is none.
        """
        while not self._requests:
            data = await self._stream.receive_some(_READ_BYTES)
            if not data:
                return None
            self._bytes += len(data)
            try:
                self._parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade):
                raise Closed from None
            if self._bytes > MAX_BODY_BYTES + _MAX_HEAD_BYTES:
                raise Closed
        return self._requests.popleft()

    async def write(self, status: int, body: bytes, *, kind: bytes = b"application/json") -> None:
        """A whole answer."""
        await self._stream.send_all(_head(status, body, kind) + body)

    async def write_half(self, body: bytes) -> None:
        """The head and half of the body, and the end."""
        await self._stream.send_all(_head(200, body, b"application/json") + body[: len(body) // 2])
        raise Closed

    def on_message_begin(self) -> None:
        """Of the parser."""
        self._target = self._kind = b""
        self._parts = []

    def on_url(self, url: bytes) -> None:
        """Of the parser."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Of the parser."""
        if name.lower() == b"content-type":
            self._kind = value

    def on_body(self, part: bytes) -> None:
        """Of the parser."""
        self._parts.append(part)

    def on_message_complete(self) -> None:
        """Of the parser."""
        self._bytes = 0
        self._requests.append(
            Request(
                target=self._target.decode("latin-1"),
                kind=self._kind.decode("latin-1"),
                body=b"".join(self._parts),
                is_last=not self._parser.should_keep_alive(),
            )
        )


def _head(status: int, body: bytes, kind: bytes) -> bytes:
    return b"HTTP/1.1 %d \r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (status, kind, len(body))


__all__ = ["MAX_BODY_BYTES", "Closed", "Request", "SimConnection"]
