"""Field entries 47 to 50 where Python values come in: from adapters, handlers, programs and people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from shardline import (
    BusError,
    BusMessage,
    Context,
    Direction,
    Event,
    Permanent,
    RetryPolicy,
    Runtime,
    Topology,
)
from shardline.actors.errors import Code
from shardline.actors.identifiers import new_uuid7
from shardline.actors.plain import Plain
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.testing import FakeChannel
from tests.kits.bad_input import LONE, VALUES
from tests.kits.bots import check_counted, counting_bot, new_message, until_quiet
from tests.kits.controlled import query
from tests.kits.words import spoiled

Turn = Callable[[Context], object]


def bot_of(turn: Turn) -> Topology:
    """Does what the test says for the text `bad`, else answers."""
    topology = Topology()
    topology.topic("log")

    @topology.on("chat.message", retry=RetryPolicy(max_retries=0))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "bad":
            turn(ctx)
        else:
            ctx.reply(f"re {message.payload.text}")

    return topology


async def died_of(turn: Turn) -> tuple[str, str]:
    """Run one bad turn beside good ones; code and text of its end. Nobody else suffers, also not a later start."""
    database, channel = MemoryDatabase(), FakeChannel()
    topology = bot_of(turn)
    async with Runtime.open(
        topology, store=open_memory(database=database, shard_count=1), adapters=[channel]
    ) as runtime:
        async with trio.open_nursery() as nursery:
            for address, text in (("a", "bad"), ("b", "good")):
                nursery.start_soon(channel.say, address, text)
        await channel.say("a", "next")
        await until_quiet(runtime)
        assert sorted(out.text for out in channel.delivered) == ["re good", "re next"]
        assert "crashes" not in runtime.counters
    async with Runtime.open(
        topology, store=open_memory(database=database, shard_count=1), adapters=[channel]
    ) as runtime:
        (dead,) = runtime.dead_letters.list()
        error = dead.record.errors[-1]
        return error.code, error.text


# --- plain values --------------------------------------------------------------------------------------------


def into_state(ctx: Context, value: object) -> None:
    ctx.state["x"] = cast("Plain", value)


def into_event(ctx: Context, value: object) -> None:
    ctx.publish("log", cast("Plain", {"x": value}))


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("door", [into_state, into_event])
async def test_a_handler_is_told_the_path(
    autojump_clock: MockClock, door: Callable[[Context, object], None], name: str
) -> None:
    value, path = VALUES[name]
    code, text = await died_of(lambda ctx: door(ctx, value))

    assert code == Code.INVALID_MESSAGE
    assert text.startswith(f"BusError: INVALID_MESSAGE: {path}")


@pytest.mark.parametrize("name", VALUES)
async def test_a_program_that_publishes_an_event_is_told_the_path_and_nothing_is_stored(
    autojump_clock: MockClock, tmp_path: Path, name: str
) -> None:
    """Entry 48: `{"x": nan}` is INVALID_MESSAGE naming `$.x`, no row."""
    value, path = VALUES[name]
    payload = cast("Plain", {"x": value})
    async with Runtime.open(
        counting_bot(), store=tmp_path / "bot.db", mode="inline", durability="normal"
    ) as runtime:
        with pytest.raises(BusError) as refused:
            await runtime.publish(Event(id=new_uuid7(), ts_us=1, topic="log", payload=payload))
        await runtime.publish(Event(id=new_uuid7(), ts_us=1, topic="log", payload={"x": 1}))

    assert refused.value.code is Code.INVALID_MESSAGE
    assert str(refused.value.context["path"]).startswith(path)
    assert query(tmp_path / "bot.db", "SELECT count(*) FROM event") == [(1,)]


# --- what a handler says -------------------------------------------------------------------------------------


class Silent(Exception):
    """Even its text fails."""

    def __str__(self) -> str:
        raise ValueError


def raising(error: BaseException) -> Turn:
    def turn(_: Context) -> None:
        raise error

    return turn


SAID: Mapping[str, tuple[Turn, Code, str]] = {
    "reply": (lambda ctx: ctx.reply(f"a{LONE}"), Code.INVALID_MESSAGE, "lone surrogates"),
    "reply with a number": (lambda ctx: ctx.reply(cast("str", 5)), Code.INVALID_MESSAGE, "visible character"),
    "reply over 1 MiB": (lambda ctx: ctx.reply("x" * 1_048_577), Code.TOO_LARGE, "at most 1048576 bytes"),
    "send to half an emoji": (
        lambda ctx: ctx.send("fake", f"fake:{LONE}", "t"), Code.INVALID_MESSAGE, "conversation_key",
    ),
    "send to a number": (
        lambda ctx: ctx.send("fake", cast("str", 5), "t"), Code.INVALID_MESSAGE, "conversation_key 5",
    ),
    "send by a list": (
        lambda ctx: ctx.send(cast("str", []), "fake:a", "t"), Code.INVALID_MESSAGE, "channel must be text",
    ),
    "send under half an emoji": (
        lambda ctx: ctx.send("fake", "fake:a", "t", idempotency_key=LONE), Code.INVALID_MESSAGE, "idempotency_key",
    ),
    "send under a key over 1 MiB": (
        lambda ctx: ctx.send("fake", "fake:a", "t", idempotency_key="k" * 1_048_576), Code.TOO_LARGE, "at most",
    ),
    "publish to a list": (
        lambda ctx: ctx.publish(cast("str", []), {}), Code.INVALID_MESSAGE, "topic must be text",
    ),
    "publish a text": (lambda ctx: ctx.publish("chat.message", LONE), Code.INVALID_MESSAGE, "lone surrogates"),
    "publish under half an emoji": (
        lambda ctx: ctx.publish("log", {}, key=LONE), Code.INVALID_MESSAGE, "key holds a lone surrogate",
    ),
    "publish over 1 MiB": (
        lambda ctx: ctx.publish("log", {"x": "y" * 1_048_577}), Code.TOO_LARGE, "payload has",
    ),
    "publish with headers of a list": (
        lambda ctx: ctx.publish("log", {}, headers=cast("dict[str, str]", [1])), Code.INVALID_MESSAGE, "headers",
    ),
    "state over 256 KiB": (
        lambda ctx: into_state(ctx, "y" * 262_144), Code.TOO_LARGE, "state has",
    ),
    "raise half an emoji": (raising(ValueError(LONE)), Code.HANDLER_FAILED, "ValueError: \ufffd"),
    "die of half an emoji": (raising(Permanent("x.no", LONE)), Code.HANDLER_FAILED, "\ufffd"),
    "raise what cannot say": (raising(Silent()), Code.HANDLER_FAILED, "cannot be had: ValueError"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
async def test_what_a_handler_says_wrongly_ends_its_turn_alone(autojump_clock: MockClock, name: str) -> None:
    turn, code, words = SAID[name]
    ended = await died_of(turn)

    assert ended[0] == code
    assert words in ended[1]


# --- what a program publishes --------------------------------------------------------------------------------

MISTYPED: Mapping[str, tuple[Mapping[str, object], str]] = {
    "a text that is a number": ({"payload.text": 5}, "text must be text"),
    "half an emoji": ({"payload.text": LONE}, "cannot be stored"),
    "no payload": ({"payload": None}, "payload must be MessageEnvelope"),
    "no extensions": ({"extensions": None}, "extensions must be Extensions"),
    "a direction of its own": ({"direction": "sideways"}, "direction must be Direction"),
    "a conversation of half an emoji": ({"conversation_key": f"fake:{LONE}"}, "conversation_key"),
    "no conversation": ({"conversation_key": None}, "conversation_key None"),
    "an id of bytes": ({"id": b"1"}, "id must be text"),
    "hops past 64 bits": ({"hops": 2**70}, ""),
    "raw that is text": ({"raw": "{}"}, "raw must be bytes"),
}


@pytest.mark.parametrize("name", MISTYPED)
@pytest.mark.parametrize("how", ["publish", "publish_validated"])
@pytest.mark.parametrize("direction", Direction)
async def test_a_program_cannot_store_what_could_not_be_read_back(
    autojump_clock: MockClock, how: str, direction: Direction, name: str
) -> None:
    fields, words = MISTYPED[name]
    message = new_message("hi", direction=direction)
    for field, value in fields.items():
        if field == "payload.text":
            message = spoiled(message, payload=spoiled(message.payload, text=value))
        else:
            message = spoiled(message, **{field: value})
    database, channel = MemoryDatabase(), FakeChannel()
    async with Runtime.open(
        counting_bot(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        with pytest.raises(BusError) as refused:
            await getattr(runtime, how)(message)
        assert refused.value.code is Code.INVALID_MESSAGE
        if how == "publish":
            assert words in refused.value.message
        await channel.say("a", "next")
        await until_quiet(runtime)
        check_counted({"a": ["next"]}, channel)
    async with Runtime.open(
        counting_bot(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        assert len(runtime.messages.list()) == len(runtime.outbox.list()) == 1
