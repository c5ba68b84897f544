"""What a server says on one connection, answer by answer: HTTP/1.1 as httptools reads it.

The parser is that of Node.js (llhttp), without any of its leniencies.
"""

from __future__ import annotations

from typing import Final

import httptools

from .failures import Broken
from .wire import MAX_ANSWER_BYTES

MAX_HEAD_BYTES: Final = 100 * 1024
READ_BYTES: Final = 65_536
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
"""The heads that say where a body ends; where neither is there, it ends with the connection."""


class Reader:
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


__all__ = ["MAX_HEAD_BYTES", "READ_BYTES", "Reader"]
