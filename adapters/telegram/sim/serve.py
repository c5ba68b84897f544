"""Serves a script until a signal comes."""

from __future__ import annotations

import signal
from collections.abc import Callable

import trio

from ....actors.strict_json import dumps
from .script import Script
from .server import open_sim, shown


async def serve_until_signal(script: Script, port: int, say: Callable[[str], None]) -> list[str]:
    """Serve at a port.

    Args:
        script: For every bot.
        port: 0 takes a free one.
        say: Is told the address.
    Returns:
        The calls that were made, as JSON lines; where there were several bots, one after the other.
    Raises:
        OSError: The port cannot be used.
    """
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with open_sim(script, port=port) as server:
            say(server.base)
            async for _ in signals:
                break
            return [dumps(shown(call)) for bot in server.bots.values() for call in bot.calls]


__all__ = ["serve_until_signal"]
