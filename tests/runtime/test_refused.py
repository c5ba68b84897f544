"""What a linear edge cannot refuse to its sender is stored for people to see, as far as it can be."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import structlog.testing
from trio.testing import MockClock

from shardline import BusError, Code, Runtime
from shardline.actors.clock import FakeClock
from shardline.actors.extensions import Extensions, Kind
from shardline.actors.message import MAX_RAW_BYTES, validate_message
from shardline.adapters.base import NO_ADDRESS, UNKNOWN_TOPIC, ChannelCaps, Inbound
from shardline.storage.records import InboxStatus, StoredInbox
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import counting_bot
from tests.kits.operated import operate

FINE = Inbound(platform_message_id="7:1", address="7", text="hi", sender="ann", raw=b"{}")
BAD = [
    pytest.param(attrs.evolve(FINE, text=""), Code.INVALID_MESSAGE, "fake:7", id="no text"),
    pytest.param(
        attrs.evolve(FINE, address="a b"),
        Code.INVALID_MESSAGE,
        f"fake:{NO_ADDRESS}",
        id="white space in the address",
    ),
    pytest.param(attrs.evolve(FINE, address=""), Code.INVALID_MESSAGE, f"fake:{NO_ADDRESS}", id="no address"),
    pytest.param(attrs.evolve(FINE, sender=" ann"), Code.INVALID_MESSAGE, "fake:7", id="sender"),
    pytest.param(attrs.evolve(FINE, sent_at="yesterday"), Code.INVALID_MESSAGE, "fake:7", id="time"),
    pytest.param(attrs.evolve(FINE, text="x" * 1_100_000), Code.TOO_LARGE, "fake:7", id="text too long"),
    pytest.param(
        attrs.evolve(FINE, raw=b"r" * (MAX_RAW_BYTES + 1)), Code.TOO_LARGE, "fake:7", id="raw too long"
    ),
    pytest.param(
        attrs.evolve(FINE, topic="no.such.topic"), Code.INVALID_TOPIC, "fake:7", id="topic not declared"
    ),
    pytest.param(attrs.evolve(FINE, topic="No Topic"), Code.INVALID_TOPIC, "fake:7", id="topic that is none"),
    pytest.param(attrs.evolve(FINE, topic="dm.reply.v1"), Code.NO_SUBSCRIBER, "fake:7", id="no handler"),
    pytest.param(attrs.evolve(FINE, session_id="s1"), Code.INVALID_MESSAGE, "fake:7", id="session"),
    pytest.param(attrs.evolve(FINE, reply_to=""), Code.INVALID_MESSAGE, "fake:7", id="reply_to"),
    pytest.param(
        attrs.evolve(FINE, extensions=Extensions(from_username="\ud800")),
        Code.INVALID_MESSAGE,
        "fake:7",
        id="extensions",
    ),
]


def refused_row(bot: Harness) -> StoredInbox:
    (row,) = bot.runtime.messages.list(status=InboxStatus.REFUSED)
    return row


@pytest.mark.parametrize(("bad", "code", "key"), BAD)
async def test_whatever_is_wrong_with_it_it_is_stored_with_the_reason(
    autojump_clock: MockClock, bad: Inbound, code: Code, key: str
) -> None:
    channel = FakeChannel("fake")
    async with Harness(counting_bot(), channels=[channel]) as bot:
        assert not await channel.read(bad)
        assert await channel.read(attrs.evolve(FINE, platform_message_id="7:2"))
        await bot.settle()

        row = refused_row(bot)
        assert row.record.conversation_key == key
        (error,) = row.record.errors
        assert (error.code, bool(error.text)) == (code, True)
        assert row.message.extensions.platform_message_id == "7:1"
        assert row.message.raw == (bad.raw or b"")[:MAX_RAW_BYTES]
        assert bad.text.startswith(row.message.payload.text)
        validate_message(row.message)
        # It is no part of its conversation: nothing waits for it, nothing runs it.
        assert bot.sent("fake:7") == ["1: hi"]
        assert bot.runtime.status().run["refused"] == 1
        assert bot.runtime.status().tokens_free == 1024


async def test_a_repeat_is_known_by_its_platform_id_and_without_one_each_is_kept(
    autojump_clock: MockClock,
) -> None:
    channel = FakeChannel("fake")
    async with Harness(counting_bot(), channels=[channel]) as bot:
        for _ in range(3):
            assert not await channel.read(attrs.evolve(FINE, text=""))
        assert not await channel.read(FINE)
        assert bot.runtime.status().inbox[InboxStatus.REFUSED] == 1
        assert bot.runtime.status().run["duplicates"] == 3

        for wrong in ("", " 7:1", "x" * 1_000):
            for _ in range(2):
                assert not await channel.read(attrs.evolve(FINE, platform_message_id=wrong, text=""))
        assert bot.runtime.status().inbox[InboxStatus.REFUSED] == 7


async def test_facts_beside_a_refused_message_are_stored(autojump_clock: MockClock, tmp_path: Path) -> None:
    """The edge's position moves on, or it would read the same message for ever."""
    channel, clock, path = FakeChannel("fake"), FakeClock(), tmp_path / "bot.db"
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    with structlog.testing.capture_logs() as logs:
        async with Runtime.open(counting_bot(), store=store, adapters=[channel], clock=clock):
            assert channel.edge is not None
            await channel.edge.accept(attrs.evolve(FINE, text=""), facts={"position": "17"})
            assert channel.edge.fact("position") == "17"
    (line,) = [line for line in logs if line["event"] == "message.refused"]
    assert (line["bus_error_code"], line["message_id"]) == ("INVALID_MESSAGE", "in-1")
    listed = operate("inbox", "list", "status=refused", "--store", path)
    assert "INVALID_MESSAGE" in listed.stdout
    assert "in-1" in listed.stdout


async def test_an_edge_that_can_answer_is_told_and_nothing_is_stored(autojump_clock: MockClock) -> None:
    channel = FakeChannel("fake", ChannelCaps(linear=False))
    async with Harness(counting_bot(), channels=[channel]) as bot:
        with pytest.raises(BusError) as refused:
            await channel.read(attrs.evolve(FINE, text=""))
        assert refused.value.code is Code.INVALID_MESSAGE
        assert bot.runtime.messages.list() == []


@pytest.mark.parametrize("address", ["7", None])
async def test_what_the_adapter_has_no_words_for_is_parked(
    autojump_clock: MockClock, address: str | None
) -> None:
    channel = FakeChannel("fake")
    raw = b"u" * (MAX_RAW_BYTES + 1)
    unknown = Inbound.unknown(platform_message_id="u1", raw=raw, sender="ann")
    if address is not None:
        unknown = attrs.evolve(unknown, address=address)
    async with Harness(counting_bot(), channels=[channel]) as bot:
        assert await channel.read(unknown)
        assert not await channel.read(unknown)
        await bot.settle()

        (row,) = bot.runtime.messages.list(status=InboxStatus.PARKED)
        assert (row.record.topic, row.record.conversation_key) == (
            UNKNOWN_TOPIC,
            f"fake:{address or NO_ADDRESS}",
        )
        assert row.message.extensions.kind is Kind.UNKNOWN
        assert row.message.raw == raw[:MAX_RAW_BYTES]
        assert bot.runtime.status().tokens_free == 1024
