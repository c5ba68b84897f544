"""Ephemeral calls: once, within their time, never stored, never in the way of a turn."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Topology
from shardline.content import Action
from shardline.testing import FakeChannel, Harness

KEY = "fake:1"


@attrs.define
class Typing(FakeChannel):
    """Notes its ephemeral calls; `hang` and `raise` do what they say."""

    acts: list[tuple[str, Action]] = attrs.field(factory=list[tuple[str, Action]])

    async def act(self, address: str, action: Action) -> None:
        await trio.lowlevel.checkpoint()
        self.acts.append((address, action))
        if action.name == "hang":
            await trio.sleep_forever()
        if action.name == "raise":
            raise OSError("gone")


def typing_bot(name: str, times: int = 1) -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        for _ in range(times):
            ctx.ephemeral(Action(name, {"id": 7}))
        ctx.reply("done")

    return topology


@pytest.mark.parametrize(
    ("name", "counted"),
    [("typing", "ephemeral_done"), ("hang", "ephemeral_lost"), ("raise", "ephemeral_lost")],
)
async def test_a_call_is_made_once_counted_and_delays_nothing(
    autojump_clock: MockClock, name: str, counted: str
) -> None:
    channel = Typing("fake")
    async with Harness(typing_bot(name), channels=[channel]) as bot:
        await bot.say(KEY, "go")
        begun_s = trio.current_time()
        await bot.settle()

        assert bot.sent(KEY) == ["done"]
        assert trio.current_time() - begun_s < 1
        await bot.advance(5.1)
        assert channel.acts == [("1", Action(name, {"id": 7}))]
        assert bot.runtime.counters[counted] == 1
        assert len(bot.outbox(KEY)) == 1


async def test_what_is_too_much_is_lost_and_counted(autojump_clock: MockClock) -> None:
    channel = Typing("fake")
    async with Harness(typing_bot("hang", 70), channels=[channel]) as bot:
        await bot.say(KEY, "go")
        await bot.settle()

        assert bot.runtime.counters["ephemeral_lost"] == 6
        await bot.advance(5.1)
        assert len(channel.acts) == 64
        assert bot.runtime.counters["ephemeral_lost"] == 70


async def test_a_channel_without_such_calls_refuses_them(autojump_clock: MockClock) -> None:
    refusals: list[Code] = []
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        with pytest.raises(BusError) as caught:
            ctx.ephemeral(Action("typing"))
        refusals.append(caught.value.code)

    async with Harness(topology) as bot:
        await bot.say(KEY, "go")
        await bot.settle()

    assert refusals == [Code.INVALID_MESSAGE]


async def test_after_its_turn_nothing_is_called(autojump_clock: MockClock) -> None:
    kept: list[Context] = []
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        kept.append(ctx)

    channel = Typing("fake")
    async with Harness(topology, channels=[channel]) as bot:
        await bot.say(KEY, "go")
        await bot.settle()
        with pytest.raises(BusError) as caught:
            kept[0].ephemeral(Action("typing"))

    assert caught.value.code is Code.STALE_CLAIM
    assert channel.acts == []
