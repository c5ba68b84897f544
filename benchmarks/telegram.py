"""Telegram over real sockets beside the bare channel: `python -m benchmarks.telegram [MESSAGES [ROUNDS]]`.

The messages are fed as updates by the server of the tests, in a process of its own, with the limits off. The other
figure of the run is the same bot over a channel in memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs
import trio

from benchmarks.product import TEXT, Memory
from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import RateLimits
from shardline.adapters.telegram import Telegram

TOKEN = "4200:benchmark"  # noqa: S105 (invented)
CHATS = 200


@attrs.frozen
class Measured:
    """Messages a second, from the first update asked for to the last answer received."""

    telegram_per_s: float
    memory_per_s: float


def echo() -> Topology:
    """Answers with the text."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


async def over_telegram(base: str, store: Path, messages: int) -> float:
    """Messages a second through the server."""
    adapter = Telegram(TOKEN, api_base=base, limits=RateLimits())
    began_s = time.perf_counter()
    async with Runtime.open(echo(), store=store, adapters=[adapter]) as runtime:
        await runtime.wait_until(lambda: runtime.counters.get("sent", 0) >= messages and runtime.is_quiet)
        took_s = time.perf_counter() - began_s
    await adapter.aclose()
    return messages / took_s


async def in_memory(store: Path, messages: int) -> float:
    """Messages a second through a channel in memory, as many at once as a page has."""
    channel = Memory()
    began_s = time.perf_counter()
    async with Runtime.open(echo(), store=store, adapters=[channel]) as runtime:
        for first in range(0, messages, 100):
            async with trio.open_nursery() as nursery:
                for number in range(first, min(first + 100, messages)):
                    nursery.start_soon(channel.say, number, CHATS)
        await runtime.wait_until(lambda: runtime.is_quiet)
        took_s = time.perf_counter() - began_s
    return messages / took_s


def measure(messages: int) -> Measured:
    """One round of both."""
    script = {
        "messages": [{"chat": chat, "text": TEXT, "times": messages // CHATS} for chat in range(1, CHATS + 1)]
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script.json").write_text(json.dumps(script))
        command = [sys.executable, "-m", "shardline", "telegram-sim", "--port", "0"]
        with subprocess.Popen(
            [*command, "--script", str(folder / "script.json")], stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            try:
                base = server.stdout.readline().strip()
                far = trio.run(over_telegram, base, folder / "telegram.db", messages)
            finally:
                server.terminate()
        return Measured(far, trio.run(in_memory, folder / "memory.db", messages))


def main() -> None:
    """Print the figures of each round."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 5):
        one = measure(messages)
        print(f"telegram {one.telegram_per_s:,.0f}/s, in memory {one.memory_per_s:,.0f}/s")


if __name__ == "__main__":
    main()
