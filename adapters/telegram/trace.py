"""What httpx tells of one call on its way: when the wait for the answer's head ends, and whether anything has left."""

from __future__ import annotations

import math

import trio


class Trace:
    """Watches one call; handed to httpx as its `trace`.

    Args:
        scope: Ends the call; its deadline is set here, for httpx's own timeouts are for each part of a head.
        limit_s: How long the head of an answer may take, seconds.
        is_tunnelled: A new connection first asks a proxy for a way, and nothing of the call leaves before it has one.

    Attributes:
        is_unsent: Nothing has left yet: the proxy has not opened the way.
    """

    def __init__(self, scope: trio.CancelScope, limit_s: float, *, is_tunnelled: bool) -> None:
        self.is_unsent = False
        self._scope = scope
        self._limit_s = limit_s
        self._is_tunnelled = is_tunnelled

    async def __call__(self, event: str, told: object) -> None:
        """One step of the call."""
        # A proxy answers with a head of its own.
        if event.endswith("receive_response_headers.started"):
            self._scope.deadline = trio.current_time() + self._limit_s
        elif event.endswith("receive_response_headers.complete"):
            self._scope.deadline = math.inf
        elif event == "connection.connect_tcp.started":
            self.is_unsent = self._is_tunnelled
        elif event == "proxy.start_tls.complete":
            self.is_unsent = False


__all__ = ["Trace"]
