"""A port to listen at that nobody else is given meanwhile."""

from __future__ import annotations

import socket
from typing import Final

_KEPT: Final[list[socket.socket]] = []


def kept_port() -> int:
    """One that the system gives, and to nobody else until this process ends: it stays bound here.

    Whoever binds it with SO_REUSEADDR, as servers do, gets it all the same, in this process or in another one; until
    then a connection to it is refused. One that was given back would be free for any client on the machine.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    _KEPT.append(kept)
    port: int = kept.getsockname()[1]
    return port
