"""A shard crashes with slots reserved and its own lanes in line for more: none of them is lost with the old lanes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import structlog
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import ChannelCaps
from shardline.runtime.shard_inbox import ShardInbox
from shardline.runtime.shard_outbox import ShardOutbox
from shardline.testing import FakeChannel
from tests.kits.bots import check_all_done, texts_to, until_quiet
from tests.kits.crashes import Place, crash_in

CONVERSATIONS = 40


def narrow_bot() -> Topology:
    """Handles one message at a time."""
    topology = Topology()

    @topology.on("chat.message", concurrency=1)
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.sleep(0.01)
        ctx.reply(message.payload.text)

    return topology


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize(
    ("owner", "method", "at"), [(ShardInbox, "claimed", [9, 10]), (ShardOutbox, "started", [9, 10])]
)
async def test_a_reserved_slot_survives_its_shard(
    autojump_clock: MockClock,
    tmp_path: Path,
    owner: type,
    method: str,
    at: list[int],
    kind: Literal["memory", "file"],
) -> None:
    """With one slot each for turns and for sends, one that is lost is the end of all work."""
    channel = FakeChannel("fake", ChannelCaps(concurrency=1))
    with structlog.testing.capture_logs(), crash_in(owner, method, at=at) as failed:
        async with Runtime.open(
            narrow_bot(), store=Place(kind, tmp_path).open(), adapters=[channel]
        ) as runtime:
            async with trio.open_nursery() as nursery:
                for number in range(CONVERSATIONS):
                    nursery.start_soon(channel.say, f"c{number}", "one")
            await until_quiet(runtime)
            check_all_done(runtime)
    assert failed == at
    assert [texts_to(f"c{number}", channel) for number in range(CONVERSATIONS)] == [["one"]] * CONVERSATIONS
