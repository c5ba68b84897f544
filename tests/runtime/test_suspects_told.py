"""While suspects run first nobody else is handled: health says so, and stops saying it when they have run."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.testing import FakeChannel
from tests.kits.bots import until_quiet
from tests.kits.stores import running


async def test_health_tells_of_suspects_as_long_as_others_wait(autojump_clock: MockClock) -> None:
    topology, goes_on = Topology(), trio.Event()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        await goes_on.wait()
        ctx.reply("done")

    database, channel = MemoryDatabase(), FakeChannel("telegram")
    async with running(open_memory(database=database)) as hand:
        for key in ("tg:1", "tg:3"):
            await hand.store.publish(hand.publish(hand.new_inbox(key, 1), claim=True))
    # The start counts the second crash.
    database.source.connect().execute("UPDATE inbox SET crashes = 1")
    async with Runtime.open(topology, store=open_memory(database=database), adapters=[channel]) as runtime:
        await channel.say("2", "hello")
        (during,) = runtime.health().reasons
        goes_on.set()
        await until_quiet(runtime)
        after = runtime.health().reasons

    assert (during.word, during.state) == ("suspects_first", "degraded")
    assert "2 may be why" in during.text
    assert after == ()
    assert sorted(out.address for out in channel.delivered) == ["1", "2", "3"]
