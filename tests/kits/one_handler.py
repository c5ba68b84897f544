"""A bot of one handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shardline import BusMessage, Context, RetryPolicy, Topology

Handler = Callable[[Context, BusMessage], Awaitable[None]]


def give(value: object) -> object:
    """A step's call that has nothing to do."""
    return value


def bot_of(handler: Handler, *, timeout_s: float = 30) -> Topology:
    """The bot, which tries again after seconds without jitter."""
    topology = Topology()
    retry = RetryPolicy(max_retries=3, base_delay_s=1, jitter="none")
    topology.on("chat.message", timeout_s=timeout_s, retry=retry)(handler)
    return topology
