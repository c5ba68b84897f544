"""Beside a broadcast of more conversations than fit in memory, answers wait for no page, and rows are read once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import cast

import apsw
import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import ChannelCaps, Rate, RateLimits
from shardline.runtime.backlog import OutboxBacklog
from shardline.runtime.send import PendingRow
from shardline.testing import FakeChannel
from tests.kits.bots import until_quiet

CONVERSATIONS = 800
PEOPLE = 30
STARTS = """
SELECT outbox.conversation_key, count(*) FILTER (WHERE history.event = 'start') FROM outbox
JOIN history ON history.kind = 'out' AND history.identity = outbox.id GROUP BY outbox.id
"""


def news() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text != "all":
            ctx.reply(message.payload.text)
            return
        for number in range(CONVERSATIONS):
            ctx.send("fake", f"fake:all-{number}", "news", bulk=True)

    return topology


async def test_an_answer_starts_in_the_commit_that_stores_it_however_much_waits_on_disk(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Nobody has seen these conversations before, and the window is full of others."""
    channel = FakeChannel("fake", ChannelCaps(concurrency=64, limits=RateLimits(bot=Rate(100.0, burst=64))))
    async with Runtime.open(
        news(), store=tmp_path / "bus.db", adapters=[channel], mode="inline", max_inflight=256
    ) as runtime:
        await channel.say("boss", "all")
        await runtime.wait_until(lambda: len(channel.delivered) > 10)
        for number in range(PEOPLE):
            # A little apart, so that what the broadcast leaves of the bucket is enough for them.
            await trio.sleep(0.05)
            await channel.say(f"person-{number}", "hi")
            await runtime.wait_until(partial(_is_answered, channel, f"fake:person-{number}"))
        assert len(channel.delivered) < CONVERSATIONS / 2, "the broadcast was still on its way"
        await until_quiet(runtime)
    rows = apsw.Connection(str(tmp_path / "bus.db")).execute(STARTS).fetchall()
    starts = dict(cast("list[tuple[str, int]]", rows))

    assert len(starts) == CONVERSATIONS + PEOPLE
    assert [starts[f"fake:person-{number}"] for number in range(PEOPLE)] == [0] * PEOPLE


async def test_what_waits_on_disk_is_read_about_once(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page read for the little room that one send leaves would bring most of its rows again and again."""
    read: list[int] = []
    page = OutboxBacklog.page

    def counted(self: OutboxBacklog, after: str, room: int) -> list[tuple[str, list[PendingRow] | None]]:
        found = page(self, after, room)
        read.append(sum(len(rows or ()) for _, rows in found))
        return found

    monkeypatch.setattr(OutboxBacklog, "page", counted)
    channel = FakeChannel("fake", ChannelCaps(concurrency=4))
    async with Runtime.open(
        news(), store=tmp_path / "bus.db", adapters=[channel], mode="inline", max_inflight=256
    ) as runtime:
        await channel.say("boss", "all")
        await until_quiet(runtime)

    assert len(channel.delivered) == CONVERSATIONS
    assert CONVERSATIONS / 2 < sum(read) < 1.5 * CONVERSATIONS
    assert len(read) < 0.4 * CONVERSATIONS, "many rows with each statement"


def _is_answered(channel: FakeChannel, key: str) -> bool:
    return any(out.conversation_key == key for out in channel.delivered)
