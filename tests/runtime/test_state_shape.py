"""The shape of the state changes: versions, the hook that brings an old state to the new one, and what goes wrong."""

from __future__ import annotations

from typing import cast

import msgpack
import pytest
from trio.testing import MockClock

from shardline import BusError, Code, Context, Runtime, Topology
from shardline.actors.errors import own_code_of
from shardline.actors.plain import Plain
from shardline.runtime.defaults import STATE_BYTES
from shardline.runtime.state import Upgrade
from tests.kits.bots import until_quiet
from tests.kits.state_bench import Bench, Say, bot_of, idle, put, split_name, visit


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


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def unspeakable(state: dict[str, Plain], version: int) -> dict[str, Plain]:
    raise UnspeakableError


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
        (unspeakable, "its text cannot be had"),
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
