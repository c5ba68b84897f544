"""What the owner notes of itself, and what it does when the note cannot be written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import structlog.testing
import trio
from structlog.typing import EventDict
from trio.testing import MockClock

from shardline import Breaker, BusMessage, Context, Runtime, Topology
from shardline.actors.clock import FakeClock
from shardline.actors.codec import unpack_plain
from shardline.actors.plain import Plain
from shardline.runtime.defaults import PULSE_S
from shardline.storage.journal import Journal
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import counting_bot, until_quiet

START_US = 1_767_225_600_000_000


def said(store: Journal) -> Mapping[str, Plain]:
    value = store.reader.fact("core", "instance_status")
    assert value is not None
    told = unpack_plain(value, limit_bytes=65_536)
    assert isinstance(told, Mapping)
    return told


async def test_it_tells_when_work_was_last_done(tmp_path: Path, autojump_clock: MockClock) -> None:
    clock = FakeClock(start_us=START_US)
    store = open_sqlite(tmp_path / "bot.db", mode="inline", durability="normal", clock=clock)
    channel = FakeChannel()
    async with Runtime.open(counting_bot(), store=store, adapters=[channel], clock=clock) as runtime:
        await trio.sleep(PULSE_S + 1)
        assert "last_handled_at_us" not in said(store)
        await channel.say("a", "hi")
        await until_quiet(runtime)
        await trio.sleep(3 * PULSE_S)
        told = said(store)

    worked_at_us = START_US + round(2 * PULSE_S * 1_000_000)
    assert told["at_us"] == START_US + round(4 * PULSE_S * 1_000_000)
    assert [told[f"last_{name}_at_us"] for name in ("accepted", "handled", "sent")] == [worked_at_us] * 3
    assert told["edges"] == {"fake": "running, 0 crashes"}


async def test_a_lease_that_is_gone_costs_one_note_and_no_crash(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    clock = FakeClock(start_us=START_US)
    store = open_sqlite(tmp_path / "bot.db", mode="inline", durability="normal", clock=clock)
    with structlog.testing.capture_logs() as logs:
        async with Runtime.open(counting_bot(), store=store, adapters=[FakeChannel()], clock=clock):
            await trio.sleep(1)
            await store.take_lease(0)
            await trio.sleep(3 * PULSE_S)

    assert events_of(logs) == []


def events_of(logs: list[EventDict]) -> list[object]:
    return [line["event"] for line in logs if line["event"] != "store.opened"]


async def test_it_tells_of_breakers_and_of_turns_past_their_limit(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    clock = FakeClock(start_us=START_US)
    store = open_sqlite(tmp_path / "bot.db", mode="inline", durability="normal", clock=clock)
    topology = Topology()

    @topology.on("chat.message", timeout_s=1, breaker=Breaker(failures=1, open_s=60))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "slow":
            with trio.CancelScope(shield=True):
                await trio.sleep(2 * PULSE_S)
        raise ValueError("down")

    channel = FakeChannel()
    async with Runtime.open(topology, store=store, adapters=[channel], clock=clock) as runtime:
        await trio.sleep(1)
        assert (said(store)["open_breakers"], said(store)["overdue_turns"]) == ({}, 0)
        await channel.say("slow", "slow")
        await channel.say("a", "hi")
        await channel.say("b", "hi")
        await trio.sleep(PULSE_S)
        told = said(store)
        status = runtime.status()

    # The one whose failure opened it, and the one behind.
    assert told["open_breakers"] == {"chat.message": "open, 2 waiting, tries in 56 s"}
    assert told["overdue_turns"] == status.overdue_turns == 1
    turns = told["oldest_turns"]
    assert isinstance(turns, list | tuple)
    [turn] = turns
    assert isinstance(turn, Mapping)
    assert (turn["key"], turn["overdue"]) == ("fake:slow", True)
