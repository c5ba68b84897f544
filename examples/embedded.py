"""A bot inside a larger trio program: its own tasks run beside it, and a task of the program decides when it ends."""

import tempfile
from logging import WARNING
from pathlib import Path

import structlog
import trio

from shardline import BusMessage, Context, Event, Runtime, Topology
from shardline.testing import FakeChannel

topology = Topology()
topology.topic("greeting.counted")


@topology.on("chat.message")
async def greet(ctx: Context, message: BusMessage) -> None:
    ctx.reply(f"hello, {message.payload.text}")
    ctx.publish("greeting.counted", {"who": message.payload.text})


async def visitors(channel: FakeChannel, done: trio.Event) -> None:
    for name in ("ann", "bob", "cho"):
        await channel.say(f"room-{name}", name)
    done.set()


async def ticks(runtime: Runtime) -> None:
    """A task of the program's own, with the runtime at hand."""
    while True:
        event = Event(id="tick", ts_us=0, topic="greeting.counted", payload={"tick": True}, idem_key="tick")
        await runtime.publish(event)  # the same key again: stored once
        await trio.sleep(0.01)


async def main(store: Path) -> None:
    channel = FakeChannel()
    async with Runtime.open(topology, store=store, adapters=[channel]) as runtime:
        async with trio.open_nursery() as program:
            everybody_came = trio.Event()
            program.start_soon(visitors, channel, everybody_came)
            program.start_soon(ticks, runtime)
            await everybody_came.wait()
            await runtime.wait_until(lambda: runtime.is_quiet)
            program.cancel_scope.cancel()
    # The block has ended: everything is on disk, the file is closed and unlocked.
    print(*sorted(out.text for out in channel.delivered), sep="\n")


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(WARNING))
    with tempfile.TemporaryDirectory() as folder:
        trio.run(main, Path(folder) / "bot.db")
