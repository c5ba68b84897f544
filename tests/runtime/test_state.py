"""The state of a conversation: what it may hold, when it is written, and how its shape changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import apsw
import msgpack
import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, RetryPolicy, Runtime, Topology
from shardline.actors.clock import FakeClock
from shardline.actors.codec import CODEC_VERSION, unpack_event
from shardline.actors.errors import own_code_of
from shardline.actors.plain import Plain
from shardline.runtime.defaults import STATE_BYTES
from shardline.runtime.state import Upgrade
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.testing import FakeChannel
from tests.kits.bots import until_quiet

START_US = 1_767_225_600_000_000
Say = Callable[[Context], None]


def bot_of(say: Say, *, version: int | None = None, upgrade: Upgrade | None = None) -> Topology:
    """Does `say` in each turn and answers `ok`."""
    topology = Topology()
    if version is not None:
        topology.state(version=version, upgrade=upgrade)

    @topology.on("chat.message", retry=RetryPolicy(max_retries=2, base_delay_s=1, jitter="none"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        await trio.lowlevel.checkpoint()
        say(ctx)
        ctx.reply("ok")

    return topology


def idle(ctx: Context) -> None:
    """Does nothing with the state."""


class Bench:
    """One store in memory under one version of the code after the other."""

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        self.channel = FakeChannel("fake")
        self.said = 0

    async def turn(
        self, topology: Topology, *addresses: str, then: Callable[[Runtime], Awaitable[None]] | None = None
    ) -> Runtime:
        """Open with this code, let each conversation say something, and wait until all is done."""
        clock = FakeClock(start_us=START_US)
        async with Runtime.open(
            topology,
            store=open_memory(database=self.database, clock=clock),
            adapters=[self.channel],
            clock=clock,
        ) as runtime:
            for address in addresses:
                self.said += 1
                await self.channel.say(address, "go", platform_message_id=f"m{self.said}")
            await until_quiet(runtime)
            if then is not None:
                await then(runtime)
        return runtime

    def stored(self, address: str = "a") -> tuple[Plain, int] | None:
        """The state on disk and its version."""
        store = open_memory(database=self.database.copy())
        found = store.reader.state(f"fake:{address}")
        store.close()
        return None if found is None else (cast("Plain", msgpack.unpackb(found.value)), found.version)

    def query(self, statement: str) -> Sequence[tuple[object, ...]]:
        """Rows of the database as it was left."""
        database = apsw.Connection(":memory:")
        database.deserialize("main", self.database.source.content())
        return database.execute(statement).fetchall()

    def change(self, statement: str, value: bytes) -> None:
        """Change the database behind everybody's back."""
        database = apsw.Connection(":memory:")
        database.deserialize("main", self.database.source.content())
        database.execute(statement, (value,))
        self.database = MemoryDatabase(database.serialize("main"))

    async def dead(self) -> list[tuple[str, str | None, str]]:
        """(code, own code, text) of the newest failure of each dead message."""
        found: list[tuple[str, str | None, str]] = []

        async def look(runtime: Runtime) -> None:
            for row in runtime.dead_letters.list():
                last = row.record.errors[-1]
                found.append((last.code, last.own_code, last.text))

        await self.turn(bot_of(idle), then=look)
        return found


def put(ctx: Context, value: object) -> None:
    """Set the state's `x`, whatever type checkers say of it."""
    cast("dict[str, object]", ctx.state)["x"] = value


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


# --- the shape ---


def split_name(state: dict[str, Plain], version: int) -> dict[str, Plain]:
    """Version 2 has `visits` for `n`, version 3 its names apart."""
    if version < 2:
        state["visits"] = state.pop("n", 0)
    if version < 3:
        first, _, last = str(state.pop("name", "")).partition(" ")
        state |= {"first": first, "last": last}
    return state


def visit(ctx: Context) -> None:
    """What version 1 does."""
    ctx.state["n"] = cast("int", ctx.state.get("n", 0)) + 1
    ctx.state["name"] = "Ann Lee"


async def test_an_older_state_is_upgraded_when_a_turn_touches_it_and_stored_with_that_turn(
    autojump_clock: MockClock,
) -> None:
    calls: list[int] = []
    seen: list[tuple[str, object]] = []

    def upgrade(state: dict[str, Plain], version: int) -> dict[str, Plain]:
        calls.append(version)
        return split_name(state, version)

    def look(ctx: Context) -> None:
        seen.append((ctx.message.conversation_key, dict(ctx.state)))

    bench = Bench()
    await bench.turn(bot_of(visit), "a", "b", "b")
    await bench.turn(bot_of(idle, version=3, upgrade=upgrade), "a")
    assert (calls, bench.stored("a")) == ([], ({"n": 1, "name": "Ann Lee"}, 1))

    await bench.turn(bot_of(look, version=3, upgrade=upgrade), "b", "b", "new")
    assert calls == [1]
    upgraded = {"visits": 2, "first": "Ann", "last": "Lee"}
    assert sorted(seen, key=lambda one: one[0]) == [
        ("fake:b", upgraded),
        ("fake:b", upgraded),
        ("fake:new", {}),
    ]
    assert bench.stored("b") == ({"visits": 2, "first": "Ann", "last": "Lee"}, 3)
    assert bench.stored("new") is None
    assert bench.stored("a") == ({"n": 1, "name": "Ann Lee"}, 1)


async def test_a_failed_turn_keeps_the_older_state(autojump_clock: MockClock) -> None:
    def touch_and_fail(ctx: Context) -> None:
        assert ctx.state["visits"] == 1
        raise ValueError("after the upgrade")

    bench = Bench()
    await bench.turn(bot_of(visit), "a")
    await bench.turn(bot_of(touch_and_fail, version=3, upgrade=split_name), "a")

    assert bench.stored() == ({"n": 1, "name": "Ann Lee"}, 1)
    ((code, own, _),) = await bench.dead()
    assert (code, own) == ("HANDLER_FAILED", None)


def raising(state: dict[str, Plain], version: int) -> dict[str, Plain]:
    state.clear()
    raise KeyError("no such thing")


def forgetful(state: dict[str, Plain], version: int) -> dict[str, Plain]:
    return None  # type: ignore[return-value]  # what this hook does wrong


def unplain(state: dict[str, Plain], version: int) -> dict[str, Plain]:
    return {"n": [float("nan")]}


def swelling(state: dict[str, Plain], version: int) -> dict[str, Plain]:
    return {"n": "x" * STATE_BYTES}


def quietly(ctx: Context) -> None:
    """A handler that would rather not know."""
    for _ in range(2):
        with pytest.raises(BusError) as caught:
            ctx.state.get("n")
        assert (caught.value.code, own_code_of(caught.value)) == (Code.HANDLER_FAILED, "x.state_upgrade")


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        (raising, "KeyError: 'no such thing'"),
        (forgetful, "it returned NoneType, not a dict"),
        (unplain, "$.n[0]: nan is not a finite number"),
        (swelling, f"at most {STATE_BYTES}"),
    ],
)
@pytest.mark.parametrize("say", [visit, quietly])
async def test_a_failing_hook_ends_the_message_by_name_and_a_fixed_one_takes_it_up(
    autojump_clock: MockClock, hook: Upgrade, reason: str, say: Say
) -> None:
    bench = Bench()
    await bench.turn(bot_of(visit), "a", "b")
    await bench.turn(bot_of(say, version=2, upgrade=hook), "a", "new" if say is visit else "b")

    assert bench.stored() == ({"n": 1, "name": "Ann Lee"}, 1)
    code, own, text = (await bench.dead())[-1]
    assert (code, own) == ("HANDLER_FAILED", "x.state_upgrade")
    assert hook.__name__ in text
    assert "version 1" in text
    assert reason in text
    # Who has no state of an older version goes on.
    assert (bench.stored("new") == ({"n": 1, "name": "Ann Lee"}, 2)) is (say is visit)

    async def requeue(runtime: Runtime) -> None:
        await runtime.dead_letters.requeue_where(own_code="x.state_upgrade", limit=10)
        await until_quiet(runtime)

    await bench.turn(bot_of(lambda ctx: put(ctx, 2), version=3, upgrade=split_name), then=requeue)
    assert bench.stored() == ({"visits": 1, "first": "Ann", "last": "Lee", "x": 2}, 3)


async def test_a_state_of_newer_code_is_refused_and_kept_and_others_go_on(autojump_clock: MockClock) -> None:
    bench = Bench()
    await bench.turn(bot_of(lambda ctx: put(ctx, "new"), version=3, upgrade=split_name), "a")
    await bench.turn(bot_of(lambda ctx: put(ctx, "old"), version=2, upgrade=split_name), "a", "b")

    assert bench.stored("a") == ({"x": "new"}, 3)
    assert bench.stored("b") == ({"x": "old"}, 2)
    ((code, _, text),) = await bench.dead()
    assert code == "STORE_MISMATCH"
    assert "has version 3, this code knows 2" in text
    silent = await bench.turn(bot_of(idle, version=2, upgrade=split_name), "a")
    assert silent.counters["handled"] == 1


async def test_a_damaged_state_is_named_as_such(autojump_clock: MockClock) -> None:
    for damaged in (b"\xc1", msgpack.packb([1])):
        bench = Bench()
        await bench.turn(bot_of(visit), "a")
        bench.change("UPDATE conversation SET state = ?", damaged)
        await bench.turn(bot_of(visit), "a")

        ((code, _, _),) = await bench.dead()
        assert code == "STORE_CORRUPT"
        assert bench.query("SELECT state FROM conversation") == [(damaged,)]


def three_arguments(state: dict[str, Plain], version: int, more: int) -> dict[str, Plain]:
    assert more
    return split_name(state, version)


async def coroutine_hook(state: dict[str, Plain], version: int) -> dict[str, Plain]:
    return state


@pytest.mark.parametrize(
    ("version", "upgrade", "message"),
    [
        (0, split_name, "from 1"),
        (-1, split_name, "from 1"),
        (2**31, split_name, "from 1"),
        (True, split_name, "from 1"),
        ("2", split_name, "from 1"),
        (2, None, "needs upgrade="),
        (2, coroutine_hook, "a plain function"),
        (2, "split_name", "a plain function"),
        (2, len, "two arguments"),
        (2, idle, "two arguments"),
        (2, three_arguments, "two arguments"),
    ],
)
def test_a_bad_declaration_is_refused(version: object, upgrade: object, message: str) -> None:
    topology = Topology()
    with pytest.raises(BusError, match=message) as caught:
        topology.state(version=cast("int", version), upgrade=cast("Upgrade", upgrade))
    assert caught.value.code is Code.INVALID_MESSAGE


def test_the_state_is_declared_once_and_before_the_runtime_opens() -> None:
    topology = Topology()
    topology.state(version=1)
    with pytest.raises(BusError) as caught:
        topology.state(version=2, upgrade=split_name)
    assert caught.value.code is Code.INVALID_MESSAGE

    topology.freeze()
    with pytest.raises(BusError) as caught:
        topology.state(version=2, upgrade=split_name)
    assert caught.value.code is Code.TOPIC_FROZEN


async def test_a_warm_lane_knows_the_version_that_it_wrote(autojump_clock: MockClock) -> None:
    """The state is upgraded once, not once a turn, although the lane never reads it again."""
    calls: list[int] = []

    def upgrade(state: dict[str, Plain], version: int) -> dict[str, Plain]:
        calls.append(version)
        return state

    bench = Bench()
    await bench.turn(bot_of(visit), "a")
    runtime = await bench.turn(bot_of(visit, version=2, upgrade=upgrade), "a", "a", "a")

    assert calls == [1]
    assert bench.stored() == ({"n": 4, "name": "Ann Lee"}, 2)
    assert runtime.counters["handled"] == 3
