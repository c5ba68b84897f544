"""A proxy of the tests' own, in threads: hands calls over, or opens a way through with CONNECT."""

from __future__ import annotations

import base64
import socket
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Literal, cast
from urllib.parse import urlsplit

Mood = Literal["pass", "refuse", "close", "stall"]
_LIMIT_S = 30.0
_REFUSAL = b"HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 4\r\n\r\nno!\n"


class Proxy(socketserver.ThreadingTCPServer):
    """Listens on a free port of 127.0.0.1.

    Attributes:
        mood: `pass` what comes; `refuse` it with 407; `close` without a word; `stall`, saying nothing.
        lines: The first lines of what was asked for.
        names: The `name:password` of each.
    """

    daemon_threads = False
    allow_reuse_address = True

    def __init__(self, mood: Mood, wants: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.mood: Mood = mood
        self.wants = wants
        self.lines: list[str] = []
        self.names: list[str] = []
        self.is_over = threading.Event()

    def address(self, name: str = "") -> str:
        """For a client; `name` is `name:password`."""
        at = f"{name}@" if name else ""
        return f"http://{at}127.0.0.1:{self.server_address[1]}"


class _Handler(socketserver.StreamRequestHandler):
    timeout = _LIMIT_S

    def handle(self) -> None:
        with suppress(OSError):
            self._serve(cast("Proxy", self.server))

    def _serve(self, proxy: Proxy) -> None:
        line, headers = self._head()
        if not line:
            return
        proxy.lines.append(line)
        kind, _, word = headers.get("proxy-authorization", "").partition(" ")
        name = base64.b64decode(word).decode() if kind == "Basic" else ""
        proxy.names.append(name)
        if proxy.mood == "close":
            return
        if proxy.mood == "stall":
            proxy.is_over.wait(_LIMIT_S)
            return
        if proxy.mood == "refuse" or (proxy.wants is not None and name != proxy.wants):
            self.rfile.read(int(headers.get("content-length", "0")))
            self.wfile.write(_REFUSAL)
            return
        method, target, _ = line.split(" ")
        if method == "CONNECT":
            self._open_way(target)
        else:
            self._hand_over(method, target, headers)

    def _head(self) -> tuple[str, dict[str, str]]:
        line = self.rfile.readline().decode("latin-1").rstrip("\r\n")
        headers: dict[str, str] = {}
        while read := self.rfile.readline().decode("latin-1").rstrip("\r\n"):
            name, _, value = read.partition(":")
            headers[name.strip().lower()] = value.strip()
        return line, headers

    def _open_way(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        with socket.create_connection((host, int(port)), _LIMIT_S) as far:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=_pour, args=(far, self.connection))
            back.start()
            _pour(self.connection, far)
            back.join()

    def _hand_over(self, method: str, target: str, headers: dict[str, str]) -> None:
        url = urlsplit(target)
        body = self.rfile.read(int(headers.get("content-length", "0")))
        kept = {
            name: value for name, value in headers.items() if not name.startswith(("proxy-", "connection"))
        }
        lines = [f"{method} {url.path} HTTP/1.1", *(f"{name}: {value}" for name, value in kept.items())]
        with socket.create_connection((url.hostname or "", url.port or 80), _LIMIT_S) as far:
            far.sendall("\r\n".join([*lines, "connection: close", "", ""]).encode() + body)
            with far.makefile("rb") as answer:
                status = answer.readline()
                self.wfile.write(status + b"connection: close\r\n" + answer.read())


def _pour(source: socket.socket, target: socket.socket) -> None:
    """Until one side ends; then both are over."""
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def open_proxy(mood: Mood = "pass", *, wants: str | None = None) -> Generator[Proxy]:
    """Serve while the block runs.

    Args:
        mood: See `Proxy`.
        wants: The `name:password` that it asks for; None lets everybody in.
    """
    with Proxy(mood, wants) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.is_over.set()
            proxy.shutdown()
            thread.join()


__all__ = ["Mood", "Proxy", "open_proxy"]
