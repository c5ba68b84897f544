"""Handlers that need a service which can be down, behind a breaker."""

from __future__ import annotations

import trio

from shardline import Breaker, BusMessage, Context, RetryPolicy, Runtime, Topology
from shardline.runtime.breaker import CircuitState
from shardline.testing import FakeChannel

RULES = Breaker(failures=3, window_s=30, open_s=10)
SLOWLY = RetryPolicy(max_retries=9, base_delay_s=60, max_delay_s=60, jitter="none")


class Backend:
    """What the handlers of `chat.message` need; those of `dm.reply.v1` do without.

    Attributes:
        error: What a call raises; None lets it through.
        work_s: How long a call takes.
        calls: Each call with its time, by text.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.work_s = 0.1
        self.calls: list[tuple[float, str]] = []
        self.under_way = 0
        self.most = 0

    def bot(self, breaker: Breaker | None = RULES, *, retry: RetryPolicy = SLOWLY) -> Topology:
        topology = Topology()

        @topology.on("chat.message", retry=retry, breaker=breaker, timeout_s=1_000)
        async def answer(ctx: Context, message: BusMessage) -> None:
            self.calls.append((trio.current_time(), message.payload.text))
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            try:
                await trio.sleep(self.work_s)
            finally:
                self.under_way -= 1
            if self.error is not None:
                raise self.error
            ctx.reply(message.payload.text)

        @topology.on("dm.reply.v1")
        async def other(ctx: Context, message: BusMessage) -> None:
            ctx.reply(message.payload.text)

        return topology

    def take(self) -> list[str]:
        """The texts of the calls since the last look."""
        texts = [text for _, text in self.calls]
        self.calls.clear()
        return texts


def state(runtime: Runtime) -> CircuitState:
    (breaker,) = runtime.status().breakers
    return breaker.state


async def open_it(runtime: Runtime, channel: FakeChannel, backend: Backend, *, count: int = 3) -> None:
    """Let conversations fail until the breaker opens."""
    backend.error = ConnectionError("down")
    for number in range(count):
        await channel.say(f"bad-{number}", f"bad {number}")
    await trio.sleep(0.2)
    assert state(runtime) is CircuitState.OPEN
    assert len(backend.take()) == count
