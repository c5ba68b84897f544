"""Timers under every mix of setting, cancelling, passing time, crashes and jumps of the clock, against a model."""

from __future__ import annotations

import json
from collections import Counter
from typing import Literal

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from shardline import BusMessage, Context, Every, Topology
from shardline.runtime.defaults import TIMER_CHECK_S
from shardline.testing import Harness, run

MAX_S = 90
KEYS = ("fake:1", "fake:2", "fake:3")


@attrs.frozen
class Op:
    """One thing that happens. `seconds` is a pause, a step, what passes, or how far the clock is set."""

    kind: Literal["set", "every", "cancel", "pass", "crash", "jump"]
    seconds: int = 0
    number: int = 0


_numbers = st.integers(0, 20)
CALM = st.one_of(
    st.builds(Op, st.just("set"), st.integers(0, MAX_S), _numbers),
    st.builds(Op, st.just("every"), st.integers(1, MAX_S), _numbers),
    st.builds(Op, st.just("cancel"), st.just(0), _numbers),
    st.builds(Op, st.just("pass"), st.integers(0, MAX_S)),
    st.builds(Op, st.just("crash")),
)
JUMPY = st.one_of(CALM, st.builds(Op, st.just("jump"), st.integers(-2 * MAX_S, 2 * MAX_S)))


def timer_bot() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def obey(ctx: Context, message: BusMessage) -> None:
        if message.causation_id is not None:
            return
        order = json.loads(message.payload.text)
        if order["kind"] == "cancel":
            ctx.cancel(order["name"])
        elif order["kind"] == "every":
            ctx.schedule(order["text"], every=Every(order["seconds"]), key=order["key"])
        else:
            ctx.schedule(order["text"], after_s=order["seconds"], key=order["key"])

    return topology


@attrs.define
class Model:
    """What is set: by its text, the due time and the step of one that repeats. And all times that were due."""

    set: dict[str, tuple[int, int | None]] = attrs.field(factory=dict[str, tuple[int, int | None]])
    fired: Counter[str] = attrs.field(factory=Counter[str])

    def until(self, now_us: int) -> None:
        for text, (due_us, step_us) in list(self.set.items()):
            while due_us <= now_us:
                self.fired[text] += 1
                if step_us is None:
                    del self.set[text]
                    break
                due_us += step_us
                self.set[text] = (due_us, step_us)


class World:
    """One bot, what was set in it, and by which name."""

    def __init__(self, bot: Harness) -> None:
        self.bot = bot
        self.model = Model()
        self.set: list[str] = []
        self.cancelled: set[str] = set()
        self.orders = 0

    async def order(self, **words: object) -> None:
        self.orders += 1
        await self.bot.say("fake:0", json.dumps(words), platform_message_id=str(self.orders))
        await self.bot.settle()

    async def do(self, op: Op) -> None:
        bot = self.bot
        match op.kind:
            case "set" | "every":
                text = f"{op.kind} {len(self.set)}"
                due_us = bot.clock.wall_us() + op.seconds * 1_000_000
                self.model.set[text] = (due_us, op.seconds * 1_000_000 if op.kind == "every" else None)
                self.set.append(text)
                key = KEYS[op.number % len(KEYS)]
                await self.order(kind=op.kind, seconds=op.seconds, text=text, key=key)
            case "cancel":
                # Those that have fired are asked for too: it changes nothing.
                for timer in bot.runtime.timers.list():
                    text = str(timer.content.payload)
                    if self.set and text == self.set[op.number % len(self.set)]:
                        self.model.set.pop(text, None)
                        self.cancelled.add(text)
                        await self.order(kind="cancel", name=timer.record.id)
            case "pass":
                await bot.advance(op.seconds)
            case "crash":
                await bot.crash()
            case "jump":
                bot.clock.jump_wall(op.seconds * 1_000_000)
        await bot.settle()
        self.model.until(bot.clock.wall_us())

    def arrived(self) -> Counter[str]:
        """By text, what timers brought. Checks that none came before its time, and none twice for it."""
        rows = [row for row in self.bot.runtime.messages.list(limit=100_000) if row.message.causation_id]
        times = [row.message.idempotency_key for row in rows]
        assert len(times) == len(set(times))
        for row in rows:
            assert int(row.message.idempotency_key.rpartition(":")[2]) <= row.record.accepted_at_us
        return Counter(row.message.payload.text for row in rows)


@settings(max_examples=40, deadline=None)
@given(ops=st.lists(CALM, max_size=25))
def test_each_fires_at_each_of_its_times(ops: list[Op]) -> None:
    async def main() -> None:
        async with Harness(timer_bot()) as bot:
            world = World(bot)
            for op in ops:
                await world.do(op)
                assert world.arrived() == world.model.fired
                assert {str(timer.content.payload) for timer in bot.runtime.timers.list()} == set(
                    world.model.set
                )

    run(main)


@settings(max_examples=40, deadline=None)
@given(ops=st.lists(JUMPY, max_size=25))
def test_a_clock_that_jumps_loses_none_and_fires_none_twice(ops: list[Op]) -> None:
    async def main() -> None:
        async with Harness(timer_bot()) as bot:
            world = World(bot)
            jumps_s = 0
            for op in ops:
                await world.do(op)
                jumps_s += abs(op.seconds) if op.kind == "jump" else 0
                world.arrived()
            # A pause is waited at most twice for each time the clock is set back.
            await bot.advance(2 * MAX_S + jumps_s + TIMER_CHECK_S)
            await bot.settle()
            arrived = world.arrived()

        for text in world.set:
            if text.startswith("set"):
                assert arrived[text] <= 1
                assert arrived[text] == 1 or text in world.cancelled
            else:
                assert arrived[text] >= 1 or text in world.cancelled

    run(main)
