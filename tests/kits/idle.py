"""Many conversations that say one thing each and fall silent, and what is left of them in memory.

As a program, `python -m tests.kits.idle STORE WARM_UP COUNT` prints what COUNT of them leave after WARM_UP others.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterable

import attrs
import structlog
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Edge, Inbound, Outbound, SendOutcome, Sent
from shardline.runtime.collector import calm_collector

AT_ONCE = 1_000


@attrs.define
class Crowd:
    """A channel that reads one message from each conversation of its waves, and forgets what it is given to send."""

    name: str = "crowd"
    prefix: str = "crowd"
    caps: ChannelCaps = attrs.field(factory=lambda: ChannelCaps(concurrency=AT_ONCE))
    sent: int = 0
    _edge: Edge | None = None

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self._edge = edge
        task_status.started()
        await trio.sleep_forever()

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        self.sent += 1
        return Sent(None)

    async def speak(self, numbers: Iterable[int]) -> None:
        """Let the conversations of these numbers say something; return when all of it is on disk."""
        edge, left = self._edge, iter(numbers)
        assert edge is not None

        async def read() -> None:
            for number in left:
                await edge.accept(
                    Inbound(platform_message_id=f"m{number}", address=f"c{number}", text="hello")
                )

        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(read)


def remembering_bot() -> Topology:
    """Keeps a state for each conversation and answers."""
    topology = Topology()

    @topology.on("chat.message", concurrency=AT_ONCE)
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.state["said"] = message.payload.text
        ctx.reply("welcome")

    return topology


def objects_of_ours() -> Counter[str]:
    """How many objects of our classes there are, by class; exact, for all of them are the collector's."""
    gc.collect()
    return Counter(
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in map(type, gc.get_objects())
        if str(kind.__module__).startswith("shardline.")
    )


def rss_bytes() -> int:
    """Memory of this process that is in RAM."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


async def all_idle(runtime: Runtime) -> None:
    """Wait until nothing is left to do and no conversation is in memory."""
    await runtime.wait_until(lambda: runtime.is_quiet and not runtime.status().lanes)


async def measure(store: str, warm_up: int, count: int) -> dict[str, object]:
    """What that many conversations leave behind, and the most lanes there were on the way."""
    crowd, most = Crowd(), 0

    async def watch(runtime: Runtime) -> None:
        nonlocal most
        while True:
            most = max(most, runtime.status().lanes)
            await trio.sleep(1)

    async with Runtime.open(remembering_bot(), store=store, adapters=[crowd], durability="normal") as runtime:
        await crowd.speak(range(warm_up))
        await all_idle(runtime)
        objects, rss = objects_of_ours(), rss_bytes()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, runtime)
            await crowd.speak(range(warm_up, warm_up + count))
            await all_idle(runtime)
            nursery.cancel_scope.cancel()
        return {
            "handled": runtime.counters["handled"],
            "sent": crowd.sent,
            "lanes": runtime.status().lanes,
            "most_lanes": most,
            "more_objects": dict(objects_of_ours() - objects),
            "grown_bytes": rss_bytes() - rss,
            "rss_bytes": rss_bytes(),
        }


if __name__ == "__main__":
    calm_collector()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print(json.dumps(trio.run(measure, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
