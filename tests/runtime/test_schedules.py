"""Schedules that the topology declares: set at the start, kept over restarts, changed and taken back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Cron, Every, Runtime, Topology
from shardline.actors.clock import FakeClock
from shardline.actors.keys import shard_of
from shardline.actors.plain import Plain
from shardline.runtime.defaults import PAYLOAD_BYTES
from shardline.runtime.recurrence import Recurrence
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import until_quiet

MINUTE_US = 60_000_000


def bot_of(schedules: Mapping[str, tuple[Recurrence, str, str]]) -> Topology:
    """Answers with what arrived. `schedules` are rule, text and key by name."""
    topology = Topology()
    topology.topic("log")

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    for name, (rule, text, key) in schedules.items():
        topology.every(name, rule, text, topic="chat.message", key=key)
    return topology


class Place:
    """One store and one clock, for one run after the other."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.database = MemoryDatabase()
        self.channel = FakeChannel()

    async def run(self, topology: Topology) -> dict[str, tuple[int, object]]:
        """Open, fire what is due, close. Returns when each timer is due, from now, and its text."""
        store = open_memory(clock=self.clock, database=self.database)
        async with Runtime.open(topology, store=store, adapters=[self.channel], clock=self.clock) as runtime:
            await until_quiet(runtime)
            now_us = self.clock.wall_us()
            return {
                row.record.id: (row.record.due_at_us - now_us, row.content.payload)
                for row in runtime.timers.list()
            }

    @property
    def sent(self) -> list[str]:
        return [out.text for out in self.channel.delivered]


async def test_it_keeps_its_next_time_over_restarts(autojump_clock: MockClock) -> None:
    place = Place()
    declared = {"tick": (Every(60), "tick", "fake:1")}
    assert await place.run(bot_of(declared)) == {"every-tick": (MINUTE_US, "tick")}
    place.clock.jump_wall(20_000_000)
    with structlog.testing.capture_logs() as logs:
        assert await place.run(bot_of(declared)) == {"every-tick": (40_000_000, "tick")}
    assert [log["event"] for log in logs if log["event"] == "schedules.changed"] == []
    place.clock.jump_wall(10 * MINUTE_US)
    assert await place.run(bot_of(declared)) == {"every-tick": (40_000_000, "tick")}
    assert place.sent == ["tick"]


@pytest.mark.parametrize(
    "changed",
    [
        (Every(120), "tick", "fake:1"),
        (Cron("0 0 1 1 *"), "tick", "fake:1"),
        (Every(60), "tock", "fake:1"),
        (Every(60), "tick", "fake:2"),
    ],
)
async def test_changed_it_begins_anew(
    changed: tuple[Recurrence, str, str], autojump_clock: MockClock
) -> None:
    place = Place()
    await place.run(bot_of({"tick": (Every(60), "tick", "fake:1")}))
    place.clock.jump_wall(90_000_000)
    with capture_logs() as logs:
        [(timer_id, (due_us, text))] = (await place.run(bot_of({"tick": changed}))).items()

    assert (timer_id, text) == ("every-tick", changed[1])
    assert due_us == changed[0].next_us(place.clock.wall_us()) - place.clock.wall_us()
    assert place.sent == []
    [log] = [log for log in logs if log["event"] == "schedules.changed"]
    assert (log["set"], log["removed"]) == (["every-tick"], [])


async def test_two_that_change_places_are_both_set(autojump_clock: MockClock) -> None:
    place = Place()
    one, other = "fake:1", "fake:2"
    assert shard_of(one, 16) != shard_of(other, 16)
    await place.run(bot_of({"a": (Every(60), "a", one), "b": (Every(60), "b", other)}))
    found = await place.run(bot_of({"a": (Every(60), "a", other), "b": (Every(60), "b", one)}))
    assert found == {"every-a": (MINUTE_US, "a"), "every-b": (MINUTE_US, "b")}


async def test_left_out_it_goes(autojump_clock: MockClock) -> None:
    place = Place()
    await place.run(bot_of({name: (Every(60), name, "fake:1") for name in ("gone", "kept")}))
    place.clock.jump_wall(90_000_000)
    with capture_logs() as logs:
        assert list(await place.run(bot_of({"kept": (Every(60), "kept", "fake:1")}))) == ["every-kept"]
    assert place.sent == ["kept"]
    [log] = [log for log in logs if log["event"] == "schedules.changed"]
    assert (log["set"], log["removed"]) == ([], ["every-gone"])


async def test_one_may_go_to_an_event_topic(autojump_clock: MockClock) -> None:
    topology = bot_of({})
    topology.every("tick", Every(60), {"n": 1}, topic="log", headers={"a": "b"})
    place = Place()
    assert await place.run(topology) == {"every-tick": (MINUTE_US, {"n": 1})}
    assert await place.run(topology) == {"every-tick": (MINUTE_US, {"n": 1})}


@pytest.mark.parametrize("name", ["", "no spaces", "UPPER", "a..b"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(BusError) as caught:
        bot_of({name: (Every(60), "x", "fake:1")})
    assert caught.value.code is Code.INVALID_MESSAGE


def test_a_name_is_declared_once() -> None:
    topology = bot_of({"tick": (Every(60), "x", "fake:1")})
    with pytest.raises(BusError) as caught:
        topology.every("tick", Every(90), "y", topic="chat.message", key="fake:1")
    assert caught.value.code is Code.TOPIC_ALREADY_HANDLED


@pytest.mark.parametrize(
    ("topic", "key", "payload", "code"),
    [
        ("no.such", "fake:1", "x", Code.INVALID_TOPIC),
        ("dm.reply.v1", "fake:1", "x", Code.NO_SUBSCRIBER),
        ("chat.message", None, "x", Code.INVALID_MESSAGE),
        ("chat.message", "nowhere", "x", Code.INVALID_MESSAGE),
        ("chat.message", "fake:1", {"n": 1}, Code.INVALID_MESSAGE),
    ],
)
def test_one_that_goes_nowhere_is_refused_when_a_runtime_opens(
    topic: str, key: str | None, payload: str, code: Code, tmp_path: Path
) -> None:
    topology = bot_of({})
    topology.every("tick", Every(60), payload, topic=topic, key=key)
    with pytest.raises(BusError) as caught:
        topology.freeze()
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("topic", "payload"),
    [("chat.message", "x" * (PAYLOAD_BYTES - 10)), ("log", {"text": "x" * PAYLOAD_BYTES})],
    ids=["message", "event"],
)
def test_one_that_brings_more_than_can_be_stored_is_refused_when_a_runtime_opens(
    topic: str, payload: Plain
) -> None:
    topology = bot_of({})
    topology.every("tick", Every(60), payload, topic=topic, key="fake:1")
    with pytest.raises(BusError) as caught:
        topology.freeze()
    assert caught.value.code is Code.TOO_LARGE


async def test_the_longest_that_is_taken_fires(autojump_clock: MockClock) -> None:
    """Its name in the message grows with its due time; one too long would end the actor at each start."""
    text = ""
    for length in range(PAYLOAD_BYTES - 400, PAYLOAD_BYTES):
        topology = bot_of({"tick": (Every(60), "x" * length, "fake:1")})
        try:
            topology.freeze()
        except BusError:
            break
        text = "x" * length
    assert text
    async with Harness(bot_of({"tick": (Every(60), text, "fake:1")})) as bot:
        await bot.settle(until_s=61)
        assert "".join(bot.sent("fake:1")) == text


async def test_it_is_not_cancelled_by_hand(autojump_clock: MockClock) -> None:
    place = Place()
    store = open_memory(clock=place.clock, database=place.database)
    topology = bot_of({"tick": (Every(60), "tick", "fake:1")})
    async with Runtime.open(topology, store=store, adapters=[place.channel], clock=place.clock) as runtime:
        with pytest.raises(BusError) as caught:
            await runtime.timers.cancel("every-tick")
        assert caught.value.code is Code.INVALID_TRANSITION
        with pytest.raises(BusError) as caught:
            await runtime.timers.cancel("timer-1-1-1-1")
        assert caught.value.code is Code.NOT_FOUND
