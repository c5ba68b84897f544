"""An open breaker in front of many conversations: few of them are in memory, and all go on in their order."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from shardline import Runtime
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel
from tests.kits.backend import Backend, open_it
from tests.kits.bots import texts_to, until_quiet

CONVERSATIONS = 400
KEPT = 3
SHARDS = 2


def waiting_lanes(runtime: Runtime) -> int:
    shards = runtime._services.shards  # pyright: ignore[reportPrivateUsage] (what is counted)
    return sum(lane.due_us is not None for shard in shards for lane in shard.inbox.lanes.values())


async def test_memory_does_not_grow_with_those_who_wait(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr("shardline.runtime.held_lanes.HUNGRY_LANES", KEPT)
    monkeypatch.setattr("shardline.runtime.held_lanes._MOST_LATE", 1)
    backend, channel = Backend(), FakeChannel()
    async with Runtime.open(
        backend.bot(), store=open_memory(shard_count=SHARDS), adapters=[channel], max_inflight=64
    ) as runtime:
        await open_it(runtime, channel, backend)
        said = ("one", "two", "three")
        for text in said[:2]:
            for number in range(CONVERSATIONS):
                await channel.say(f"c{number}", text)
        # Those that were claimed before it was known wait out what they were told, as after any failure.
        await trio.sleep(25)
        assert waiting_lanes(runtime) <= SHARDS * (KEPT + 1) + 6  # and those whose own turn failed
        assert runtime.status().tokens_free == 64
        assert not runtime.is_quiet

        backend.error = None
        # What comes while the others are found again must not pass them.
        for number in range(CONVERSATIONS):
            await channel.say(f"c{number}", said[2])
        await until_quiet(runtime, 1_000)
        assert [texts_to(f"c{number}", channel) for number in range(CONVERSATIONS)] == [
            list(said)
        ] * CONVERSATIONS
        assert waiting_lanes(runtime) == 0
