"""One connection to a server: a request, all of its answer, then the next request.

This is the one over a stream, for TLS and for systems without epoll; the plain one is in `direct.py`.
"""

from __future__ import annotations

import contextlib
import math
import socket as sockets
import ssl
import time

import trio

from ...actors.leaves import leaves
from .bodies import close_soon
from .direct import Direct
from .failures import Broken, NotConnected
from .reader import READ_BYTES, Reader
from .watch import Watch


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
        self._reader = Reader()
        self.idle_since_s = math.nan
        """Since when it waits for its next request, monotonic; not a number where it takes no more."""

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
                    reader.take(await stream.receive_some(READ_BYTES))
                    now_s = trio.current_time()
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            raise Broken(type(error).__name__) from None
        if reader.is_kept:
            self.idle_since_s = time.monotonic()
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


async def connect(
    host: str, port: int, tls: ssl.SSLContext | None, *, connect_s: float, watch: Watch | None = None
) -> Connection | Direct:
    """Connect, and agree on TLS.

    Args:
        host, port: Of the server.
        tls: None for none.
        connect_s: For all of it, seconds.
        watch: Who reads what comes without TLS; None for a stream in any case.
    Raises:
        NotConnected: It cannot.
    """
    try:
        with trio.fail_after(connect_s):
            socket = await trio.open_tcp_stream(host, port)
            if tls is None and watch is not None:
                return _watched(sockets.socket(fileno=socket.socket.detach()), watch)
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


def _watched(plain: sockets.socket, watch: Watch) -> Direct:
    try:
        return Direct(plain, watch)
    except OSError:
        # The process has no file left for an epoll.
        plain.close()
        raise


__all__ = ["Connection", "connect"]
