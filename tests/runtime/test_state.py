"""The state of a conversation: what it may hold, and when it is written."""

from __future__ import annotations

from typing import cast

import msgpack
import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Topology
from shardline.actors.codec import CODEC_VERSION, unpack_event
from shardline.actors.plain import Plain
from shardline.runtime.defaults import STATE_BYTES
from tests.kits.state_bench import Bench, Say, bot_of, put


def circle() -> list[object]:
    inner: list[object] = []
    inner.append(inner)
    return inner


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "path"),
    [
        pytest.param([0, 1, 2, {"b": float("nan")}], "$.x[3].b", id="NaN"),
        pytest.param({"deep": {"er": float("-inf")}}, "$.x.deep.er", id="infinity"),
        pytest.param([2**64], "$.x[0]", id="an integer over 64 bits"),
        pytest.param([-(2**63) - 1], "$.x[0]", id="an integer under 64 bits"),
        pytest.param(2**64, "$.x", id="an integer over 64 bits in a flat state"),
        pytest.param({"s": {1, 2}}, "$.x.s", id="a set"),
        pytest.param({"m": {1: "one"}}, "$.x.m", id="a key that is no text"),
        pytest.param({"a b": (1, 2)}, '$.x["a b"]', id="a tuple"),
        pytest.param([bytearray(b"x")], "$.x[0]", id="a bytearray"),
        pytest.param(["\ud800"], "$.x[0]", id="a lone surrogate"),
        pytest.param("\ud800", "$.x", id="a lone surrogate in a flat state"),
        pytest.param(nested(64), "$.x" + "[0]" * 63, id="too deep"),
        pytest.param(circle(), "$.x" + "[0]" * 63, id="a list in itself"),
        pytest.param(object(), "$.x", id="any object"),
    ],
)
async def test_a_value_that_cannot_be_stored_ends_its_message_and_names_its_path(
    autojump_clock: MockClock, value: object, path: str
) -> None:
    bench = Bench()
    await bench.turn(bot_of(lambda ctx: put(ctx, "before")), "a")
    await bench.turn(bot_of(lambda ctx: put(ctx, value)), "a")

    ((code, _, text),) = await bench.dead()
    assert code == "INVALID_MESSAGE"
    assert f"{path}: " in text
    assert bench.stored() == ({"x": "before"}, 1)
    assert [out.text for out in bench.channel.delivered] == ["ok"]


async def test_what_can_be_stored_comes_back_equal(autojump_clock: MockClock) -> None:
    value: Plain = [2**64 - 1, -(2**63), 1e300, "ä", b"\x00\xff", None, True, {"": [], "k": {}}, nested(61)]  # type: ignore[list-item]  # `nested` is plain
    bench, seen = Bench(), list[object]()
    await bench.turn(bot_of(lambda ctx: put(ctx, value)), "a")
    await bench.turn(bot_of(lambda ctx: seen.append(ctx.state["x"])), "a")

    assert seen == [value]


async def test_a_state_over_its_limit_ends_its_message_with_the_sizes_and_the_largest_part(
    autojump_clock: MockClock,
) -> None:
    def fill(room: int) -> Say:
        def say(ctx: Context) -> None:
            ctx.state["small"] = "s"
            ctx.state["log book"] = ["x" * room]

        return say

    bench = Bench()
    await bench.turn(bot_of(fill(100)), "a")
    small = bench.stored()
    await bench.turn(bot_of(fill(STATE_BYTES)), "a")

    ((code, _, text),) = await bench.dead()
    assert code == "TOO_LARGE"
    assert f"at most {STATE_BYTES}" in text
    assert f'$["log book"] alone has {STATE_BYTES + 6}' in text
    assert bench.stored() == small


@pytest.mark.parametrize(("over", "stored"), [(0, STATE_BYTES), (1, None)])
async def test_the_limit_is_exact(autojump_clock: MockClock, over: int, stored: int | None) -> None:
    room = STATE_BYTES - len(msgpack.packb({"x": "y" * 100_000})) + 100_000
    bench = Bench()
    await bench.turn(bot_of(lambda ctx: put(ctx, "y" * (room + over))), "a")

    found = bench.stored()
    assert (None if found is None else len(msgpack.packb(found[0]))) == stored


async def test_what_is_changed_in_place_is_stored_and_what_is_only_read_is_not_written(
    autojump_clock: MockClock,
) -> None:
    def grow(ctx: Context) -> None:
        cast("list[Plain]", ctx.state.setdefault("list", [])).append(1)

    bench = Bench()
    await bench.turn(bot_of(grow), "a")
    await trio.sleep(1)
    await bench.turn(bot_of(grow), "a")
    assert bench.stored() == ({"list": [1, 1]}, 1)
    written = bench.query("SELECT updated_at FROM conversation")

    await trio.sleep(1)
    await bench.turn(bot_of(lambda ctx: cast("list[Plain]", ctx.state["list"]).reverse()), "a")
    assert bench.query("SELECT updated_at FROM conversation") == written


async def test_an_emptied_state_leaves_no_row(autojump_clock: MockClock) -> None:
    bench, seen = Bench(), list[object]()
    await bench.turn(bot_of(lambda ctx: put(ctx, 1)), "a")
    assert bench.query("SELECT count(*) FROM conversation") == [(1,)]

    await bench.turn(bot_of(lambda ctx: ctx.state.clear()), "a")
    assert bench.query("SELECT count(*) FROM conversation") == [(0,)]
    await bench.turn(bot_of(lambda ctx: seen.append(dict(ctx.state))), "a", "a")
    assert seen == [{}, {}]


async def test_no_two_conversations_or_turns_share_a_value(autojump_clock: MockClock) -> None:
    shared: list[Plain] = []
    seen: list[tuple[str, list[Plain]]] = []

    def say(ctx: Context) -> None:
        found = cast("list[Plain]", ctx.state.setdefault("list", shared))
        found.append(ctx.message.conversation_key)
        seen.append((ctx.message.conversation_key, list(found)))

    bench = Bench()
    await bench.turn(bot_of(say), "a", "a")
    shared.clear()
    shared.append("another time")
    await bench.turn(bot_of(say), "a", "b")

    assert seen == [
        ("fake:a", ["fake:a"]),
        ("fake:a", ["fake:a", "fake:a"]),
        ("fake:a", ["fake:a", "fake:a", "fake:a"]),
        ("fake:b", ["another time", "fake:b"]),
    ]


async def test_what_a_handler_does_to_its_state_or_event_after_its_turn_is_too_late(
    autojump_clock: MockClock,
) -> None:
    topology = Topology()
    topology.topic("order.shipped")
    kept: list[dict[str, Plain]] = []

    async with trio.open_nursery() as nursery:

        async def meddle(state: dict[str, Plain], event: dict[str, Plain]) -> None:
            # Runs as soon as the handler has returned, before the shard has heard of it.
            state["x"] = "late"
            event["n"] = float("nan")

        @topology.on("chat.message")
        async def answer(ctx: Context, message: BusMessage) -> None:
            await trio.lowlevel.checkpoint()
            state = cast("dict[str, Plain]", ctx.state)
            state["x"] = "in time"
            event: dict[str, Plain] = {"n": 1}
            ctx.publish("order.shipped", event)
            event["n"] = 2
            kept.append(state)
            nursery.start_soon(meddle, state, event)

        bench = Bench()
        await bench.turn(topology, "a")

    assert kept[0]["x"] == "late"
    assert await bench.dead() == []
    assert bench.stored() == ({"x": "in time"}, 1)
    ((body,),) = bench.query("SELECT body FROM event")
    assert unpack_event(cast("bytes", body), CODEC_VERSION).payload == {"n": 1}
