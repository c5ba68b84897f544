"""Field entry 14, the health words: a socket that looks healthy and receives nothing.

Right: an adapter's watchdog says so, and when a message was last received is there to see. Connections are the
adapter's own test.
"""

from __future__ import annotations

from pathlib import Path

import trio
from trio.testing import MockClock

from shardline import Runtime
from shardline.actors.clock import FakeClock
from shardline.actors.codec import unpack_plain
from shardline.runtime.defaults import PULSE_S
from shardline.runtime.health import HealthState
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot

TEXT = "the socket receives nothing: 10 connections share its events"


async def test_a_silent_socket_is_said_and_its_last_message_is_there_to_see(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    clock, channel = FakeClock(start_us=1_000_000_000_000_000), FakeChannel()
    store = open_sqlite(tmp_path / "bot.db", mode="inline", durability="normal", clock=clock)
    async with Runtime.open(counting_bot(), store=store, adapters=[channel], clock=clock) as runtime:
        await channel.say("a", "hi")
        received_us = clock.wall_us()
        await trio.sleep(90)
        assert channel.edge is not None
        channel.edge.report("failing", TEXT)
        await trio.sleep(PULSE_S)
        health = runtime.health()
        assert health.state is HealthState.FAILING
        assert [reason.text for reason in health.reasons] == [TEXT]
        told = unpack_plain(store.reader.fact("core", "instance_status") or b"", limit_bytes=65_536)
        assert isinstance(told, dict)
        assert told["last_received_at_us"] == {"fake": received_us}
        await trio.sleep(120)
        assert runtime.health().state is HealthState.OK
