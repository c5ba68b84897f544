"""Runs an ASGI application under hypercorn on trio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

import trio
from hypercorn.config import Config
from hypercorn.trio import serve  # pyright: ignore[reportUnknownVariableType] (its type of WSGI is not known)

if TYPE_CHECKING:
    from .webhook import Message, Receive, Send

    App = Callable[[Message, Receive, Send], Awaitable[None]]

_CLOSE_S = 2.0


async def serve_app(
    app: App,
    *,
    host: str,
    port: int,
    certfile: str | None = None,
    keyfile: str | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled.

    Args:
        app: The application.
        host, port: Where to listen; port 0 takes a free one.
        certfile, keyfile: For TLS.
        task_status: Is told the addresses, once it listens.
    """
    config = Config()
    config.bind = [f"{host}:{port}"]
    config.certfile = certfile
    config.keyfile = keyfile
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.graceful_timeout = _CLOSE_S
    await cast("Callable[..., Awaitable[None]]", serve)(app, config, task_status=task_status)


__all__ = ["serve_app"]
