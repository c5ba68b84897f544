"""One HTTP/1.1 connection to the server: one call at a time, a whole request in one write.

The pool of httpx looks at each of its connections several times for each request, and writes head and body apart; with
some dozens of sends in flight that costs more than all the rest of a message (docs/explanation/performance.md).
"""

from __future__ import annotations

import ssl
from typing import Final

import attrs
import h11
import trio

from .wire import MAX_ANSWER_BYTES

IDLE_S: Final = 5.0
"""How long an unused connection is kept: servers close theirs, and a request that crosses such a close is uncertain."""
WHOLE_S: Final = 60.0
"""How long an answer may take from its first byte to its last one."""
_READ_BYTES: Final = 65_536
_MAX_HEAD_BYTES: Final = 100_000


class LineBroken(Exception):
    """There is no complete answer, and something may have left. The text holds no address and no token."""


@attrs.frozen(kw_only=True)
class Place:
    """Where a server is.

    Attributes:
        host, port: For the connection.
        name: For the Host header.
        tls: None for plain HTTP.
    """

    host: str
    port: int
    name: bytes
    tls: ssl.SSLContext | None


class Line:
    """A connection that is open.

    Args:
        socket: Under the stream.
        stream: The socket's, or TLS over it.
        name: For the Host header.
    """

    def __init__(self, socket: trio.socket.SocketType, stream: trio.abc.Stream, name: bytes) -> None:
        self._socket = socket
        self._stream = stream
        self._name = name
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD_BYTES)
        self._idle_since_s = trio.current_time()
        self._is_open = True
        self._is_plain = isinstance(stream, trio.SocketStream)

    @property
    def is_open(self) -> bool:
        """Whether another request may follow."""
        return self._is_open

    def is_stale(self, now_s: float) -> bool:
        """Whether it was unused for too long."""
        return now_s - self._idle_since_s > IDLE_S

    def is_dropped(self) -> bool:
        """Whether the server has closed it, or said something unasked."""
        return self._socket.is_readable()

    def close(self) -> None:
        """Close it at once, whatever goes on."""
        self._is_open = False
        self._socket.close()

    async def ask(self, target: bytes, body: bytes, *, write_s: float, read_s: float) -> tuple[int, bytes]:
        """Make one request, and wait for all of its answer.

        Args:
            target: The path.
            body: JSON.
            write_s: How long the request may take to leave, seconds.
            read_s: How long to wait for each part of the answer, seconds; for all of it `WHOLE_S` more at most.
        Returns:
            The status and the body.
        Raises:
            LineBroken: There is no complete answer.
        """
        try:
            with trio.fail_after(write_s) as scope:
                await self._write(target, body)
                scope.deadline = trio.current_time() + read_s
                return await self._read(read_s, scope)
        except trio.TooSlowError:
            self.close()
            raise LineBroken("no answer in time") from None
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError) as error:
            self.close()
            raise LineBroken(type(error).__name__) from None
        except BaseException:
            self.close()
            raise

    async def _write(self, target: bytes, body: bytes) -> None:
        http = self._http
        headers = [
            (b"host", self._name),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
        ]
        head = http.send(h11.Request(method=b"POST", target=target, headers=headers)) or b""
        rest = (http.send(h11.Data(data=body)) or b"") + (http.send(h11.EndOfMessage()) or b"")
        try:
            await self._stream.send_all(head + rest)
        except trio.BrokenResourceError:
            # A server may answer before it has read all of it, and close: the answer is there to be read.
            await trio.lowlevel.checkpoint()

    async def _read(self, read_s: float, scope: trio.CancelScope) -> tuple[int, bytes]:
        status, size = 0, 0
        parts: list[bytes] = []
        last_s = scope.deadline + WHOLE_S
        if self._is_plain:
            # Nothing is there yet: to try first would be a call of the system for nothing.
            await trio.lowlevel.wait_readable(self._socket)
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(bytes(await self._stream.receive_some(_READ_BYTES)))
                scope.deadline = min(trio.current_time() + read_s, last_s)
            elif isinstance(event, h11.Data):
                size += len(event.data)
                if size > MAX_ANSWER_BYTES:
                    raise h11.RemoteProtocolError("the answer is too long")
                parts.append(bytes(event.data))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif not isinstance(event, h11.InformationalResponse):
                break
        if not isinstance(event, h11.EndOfMessage):
            raise h11.RemoteProtocolError("the connection has ended")
        self._rest()
        return status, b"".join(parts)

    def _rest(self) -> None:
        """Ready for another request, if the server agrees and has said no more than it was asked."""
        http = self._http
        if http.our_state is not h11.DONE or http.their_state is not h11.DONE or http.trailing_data[0]:
            self.close()
            return
        http.start_next_cycle()
        self._idle_since_s = trio.current_time()


async def open_line(place: Place) -> Line:
    """Connect.

    Raises:
        OSError: Nobody is there.
        trio.BrokenResourceError: TLS failed.
    """
    stream = await trio.open_tcp_stream(place.host, place.port)
    if place.tls is None:
        return Line(stream.socket, stream, place.name)
    secure = trio.SSLStream(stream, place.tls, server_hostname=place.host, https_compatible=True)
    try:
        await secure.do_handshake()
    except BaseException:
        stream.socket.close()
        raise
    return Line(stream.socket, secure, place.name)


__all__ = ["IDLE_S", "WHOLE_S", "Line", "LineBroken", "Place", "open_line"]
