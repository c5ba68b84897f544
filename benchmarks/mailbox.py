"""How much faster a mailbox is than a trio memory channel of the same capacity: one producer, one consumer.

Interleaved rounds in one run; the median of the per-round ratios counts. Bar: 3 times. Exit status 1 below it.
"""

import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import trio

from shardline.actors.mailbox import Mailbox

CAPACITY = 256
MESSAGES = 50_000
ROUNDS = 5
BAR = 3.0


async def _pair(produce: Callable[[], Awaitable[None]], consume: Callable[[], Awaitable[None]]) -> float:
    """Messages per second of one producer and one consumer."""
    began_s = time.perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        nursery.start_soon(consume)
    return MESSAGES / (time.perf_counter() - began_s)


async def through_mailbox() -> float:
    mailbox = Mailbox[int](CAPACITY)

    async def produce() -> None:
        for n in range(MESSAGES):
            await mailbox.put(n)

    async def consume() -> None:
        for _ in range(MESSAGES):
            await mailbox.get()

    return await _pair(produce, consume)


async def through_channel() -> float:
    sender, receiver = trio.open_memory_channel[int](CAPACITY)

    async def produce() -> None:
        for n in range(MESSAGES):
            await sender.send(n)

    async def consume() -> None:
        for _ in range(MESSAGES):
            await receiver.receive()

    return await _pair(produce, consume)


async def told() -> float:
    """The producer never waits, the consumer takes batches: as an actor does."""
    mailbox = Mailbox[int](CAPACITY)

    async def produce() -> None:
        for start in range(0, MESSAGES, CAPACITY):
            for n in range(start, min(start + CAPACITY, MESSAGES)):
                mailbox.put_nowait(n)
            while len(mailbox):
                await trio.lowlevel.checkpoint()

    async def consume() -> None:
        left = MESSAGES
        while left:
            left -= len(await mailbox.get_batch(32))

    return await _pair(produce, consume)


def main() -> int:
    print("messages/s   mailbox   told    channel   mailbox/channel")
    ratios: list[float] = []
    for _ in range(ROUNDS):
        own, batch, peer = trio.run(through_mailbox), trio.run(told), trio.run(through_channel)
        ratios.append(own / peer)
        print(f"{own:20,.0f} {batch:11,.0f} {peer:9,.0f} {own / peer:12.1f}")
    median = statistics.median(ratios)
    print(f"median ratio {median:.1f}, bar {BAR:.1f}")
    return 0 if median >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
