"""A runtime inside an asyncio program, as a ratio to the same bot under trio alone (the column `raw`)."""

import asyncio
import sys
import time
from functools import partial
from pathlib import Path

import trio

from benchmarks.comparison import Goal, run_goals
from benchmarks.product import SENT_AT, TEXT
from benchmarks.raw import Rate
from shardline import BusMessage, Context, Direction, MessageEnvelope, Runtime, Topology
from shardline.actors.identifiers import new_uuid7
from shardline.asyncio import AsyncioContext, asyncio_handler, runtime


def trio_bot() -> Topology:
    """Each turn writes state."""
    topology = Topology()

    @topology.on("chat.message")
    async def count(ctx: Context, message: BusMessage) -> None:
        await trio.lowlevel.checkpoint()
        ctx.state["text"] = message.payload.text

    return topology


def asyncio_bot() -> Topology:
    """The same, as an asyncio coroutine."""
    topology = Topology()

    @topology.on("chat.message")
    @asyncio_handler
    async def count(ctx: AsyncioContext, message: BusMessage) -> None:
        await asyncio.sleep(0)
        ctx.state["text"] = message.payload.text

    return topology


def native(path: Path, /, *, publishers: int, seconds: float) -> Rate:
    """So many trio tasks publish, each its conversation, and wait for each turn's end."""

    async def publish(bot: Runtime, key: str, due_s: float) -> None:
        while time.perf_counter() < due_s:
            await bot.publish(new_message(key), wait="handled")

    async def main() -> Rate:
        async with Runtime.open(trio_bot(), store=path, durability="normal") as bot:
            begin_s = time.perf_counter()
            async with trio.open_nursery() as nursery:
                for number in range(publishers):
                    nursery.start_soon(publish, bot, f"memory:{number}", begin_s + seconds)
            return _rate(bot, begin_s)

    return trio.run(main)


def hosted(path: Path, /, *, publishers: int, seconds: float) -> Rate:
    """The same from asyncio tasks, handled by an asyncio coroutine."""

    async def main() -> Rate:
        async with runtime(asyncio_bot(), store=path, durability="normal") as bot:

            async def publish(key: str, due_s: float) -> None:
                while time.perf_counter() < due_s:
                    await bot.publish(new_message(key), wait="handled")

            begin_s = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for number in range(publishers):
                    group.create_task(publish(f"memory:{number}", begin_s + seconds))
            return _rate(bot.native, begin_s)

    return asyncio.run(main())


def new_message(key: str) -> BusMessage:
    """One that nobody has published before."""
    name = new_uuid7()
    return BusMessage(
        id=name,
        direction=Direction.INBOUND,
        channel="memory",
        topic="chat.message",
        conversation_key=key,
        idempotency_key=name,
        correlation_id=name,
        payload=MessageEnvelope(message_id=name, text=TEXT, sent_at=SENT_AT, session_id=name),
        created_at_us=1_767_225_600_000_000,
    )


def _rate(bot: Runtime, begin_s: float) -> Rate:
    handled = bot.counters["handled"]
    # Both sides commit alike: the column of commits is empty here.
    return Rate(messages=handled, commits=0, took_s=time.perf_counter() - begin_s)


def host_goals() -> list[Goal]:
    """Lines for information: publish and wait for the turn, so many at once."""
    return [
        Goal(
            name=f"publish and wait, asyncio, {publishers} at once",
            sync="NORMAL",
            product=partial(hosted, publishers=publishers),
            raw=partial(native, publishers=publishers),
        )
        for publishers in (1, 16, 256)
    ]


if __name__ == "__main__":
    sys.exit(run_goals("asyncio_host", __doc__ or "", host_goals()))
