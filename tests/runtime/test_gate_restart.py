"""A shard crashes while suspects run first: they run once more, and everybody after them."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from shardline import Runtime
from shardline.runtime.shard_inbox import ShardInbox
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot, texts_to, until_quiet
from tests.kits.crashes import crash_in
from tests.kits.stores import running

SUSPECTS = ("tg:1", "tg:3")


@pytest.mark.parametrize("method", ["_line_up", "claimed", "_start", "turn_ended", "_settle_turn"])
async def test_a_shard_that_crashes_at_a_suspect_keeps_nobody_waiting(
    method: str, autojump_clock: MockClock
) -> None:
    database, channel = MemoryDatabase(), FakeChannel("telegram")
    async with running(open_memory(database=database)) as hand:
        assert len({hand.shard(key) for key in SUSPECTS}) == len(SUSPECTS)
        for key in SUSPECTS:
            await hand.store.publish(hand.publish(hand.new_inbox(key, 1), claim=True))
    # The start counts the second crash.
    database.source.connect().execute("UPDATE inbox SET crashes = 1")
    with crash_in(ShardInbox, method, at=(1,)):
        async with Runtime.open(
            counting_bot(), store=open_memory(database=database), adapters=[channel]
        ) as runtime:
            await channel.say("2", "hello")
            await until_quiet(runtime)
            assert runtime.counters["crashes"] == 1
    assert texts_to("2", channel) == ["1: hello"]
    assert sorted(out.address for out in channel.delivered) == ["1", "2", "3"]
