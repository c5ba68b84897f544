"""Who is busy, and for how long: seen from inside, and from outside beside the live owner."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.actors.clock import FakeClock, SystemClock
from shardline.actors.codec import unpack_plain
from shardline.runtime.defaults import PULSE_S, TURN_OVERDUE_S
from shardline.runtime.running import RunningTurn
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel, Harness
from tests.kits.operated import operate


def stuck_bot() -> Topology:
    topology = Topology()

    @topology.on("chat.message", timeout_s=3_600, concurrency=200)
    async def wait(ctx: Context, message: BusMessage) -> None:
        await trio.sleep_forever()

    return topology


async def test_the_oldest_come_first_and_the_list_is_bounded(autojump_clock: MockClock) -> None:
    async with Harness(stuck_bot()) as bot:
        for number in range(60):
            await bot.say(f"fake:{number}", "hi")
            await bot.advance(1)
        status = bot.runtime.status()

        assert (status.running_turns, len(status.oldest_turns)) == (60, 50)
        assert status.overdue_turns == 60 - TURN_OVERDUE_S + 1
        assert [turn.conversation_key for turn in status.oldest_turns[:2]] == ["fake:0", "fake:1"]
        assert status.oldest_turns[0] == RunningTurn(
            topic="chat.message",
            channel="fake",
            conversation_key="fake:0",
            inbox_id=1,
            age_s=60.0,
            limit_s=3_600,
            overdue=True,
        )
        bot.runtime.request_stop()
        bot.runtime.request_stop()


async def test_the_note_of_the_owner_has_them_whatever_their_keys(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """Fifty conversations with keys of a thousand characters: the note has a bound too."""
    clock, channel = FakeClock(), FakeChannel()
    store = open_sqlite(tmp_path / "bot.db", mode="inline", durability="normal", clock=clock)
    async with Runtime.open(stuck_bot(), store=store, adapters=[channel], clock=clock, grace_s=0):
        for number in range(60):
            await channel.say(f"{number}-" + "k" * 4_000, "hi")
        await trio.sleep(3 * PULSE_S + 1)
        fact = store.reader.fact("core", "instance_status")
    assert fact is not None
    said = unpack_plain(fact, limit_bytes=65_536)
    assert isinstance(said, Mapping)
    assert (said["running_turns"], said["overdue_turns"]) == (60, 60)
    turns = said["oldest_turns"]
    assert isinstance(turns, list)
    assert len(turns) == 50
    assert turns[0] == {
        "id": "in-1",
        "key": ("fake:0-" + "k" * 4_000)[:200],
        "topic": "chat.message",
        "channel": "fake",
        "age_s": 3 * PULSE_S,
        "limit_s": 3_600.0,
        "overdue": True,
    }


async def test_the_command_shows_them_beside_the_owner_and_later_as_over(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    path, channel, clock = tmp_path / "bot.db", FakeChannel(), FakeClock(start_us=SystemClock().wall_us())
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    async with Runtime.open(stuck_bot(), store=store, adapters=[channel], clock=clock, grace_s=0):
        await channel.say("a", "hi")
        # The note's own clock runs ahead of the machine's, so it is fresh.
        await trio.sleep(2 * PULSE_S + 1)
        people = operate("status", "--store", path).stdout
        program = json.loads(operate("status", "--store", path, "--json").stdout)
        doctor = json.loads(operate("doctor", "--store", path, "--json").stdout)
    gone = operate("status", "--store", path).stdout

    assert "running turns\n" in people
    (line,) = [line for line in people.splitlines() if line.startswith("in-1 ")]
    assert line.split() == ["in-1", "10.0", "s", "3,600.0", "s", "chat.message", "fake:a", "overdue"]
    (turn,) = program["live"]["said"]["oldest_turns"]
    assert (turn["key"], turn["overdue"], program["live"]["stale"]) == ("fake:a", True, False)
    checks = {check["name"]: check for check in doctor["checks"]}
    assert checks["turns"]["outcome"] == "warn"
    assert "fake:a" in checks["turns"]["text"]
    assert checks["intake"]["outcome"] == "ok"
    assert "running turns (before it stopped)" in gone
