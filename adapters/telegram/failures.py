"""How a request over a connection of our own fails. Texts hold no address and no token."""

from __future__ import annotations


class NotConnected(Exception):
    """No byte of the request has left."""


class Broken(Exception):
    """There is no complete answer, and something may have left."""


__all__ = ["Broken", "NotConnected"]
