"""Field entries 47 to 50 at every door of a turn: what a handler asks of its context.

Each value has a turn of its own: the verb works or raises a BusError in it, the turn then ends as if nothing had been,
and what it decided reaches its end.
"""

# What is handed over here has no types: that is the point.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, cast

import structlog
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Every, Runtime, Topology
from shardline.adapters.base import ChannelCaps
from shardline.content import Action
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel
from tests.field.test_f47_f50_doors_runtime import CONTENTS, contents
from tests.kits.bots import until_quiet
from tests.kits.doors import HOSTILE, Door, knock, public_verbs

SEND: Final = {
    "channel": "fake", "key": "fake:to", "content": "hi", "idempotency_key": None, "on_uncertain": None, "bulk": False,
}  # fmt: skip
EVENT: Final = {"topic": "log", "payload": {"n": 1}, "key": None, "headers": None, "idem_key": None}
LATER: Final = {"payload": {}, "after_s": 1, "topic": "log", "key": None, "headers": None}


class Chatty(FakeChannel):
    """Also takes ephemeral calls."""

    async def act(self, address: str, action: Action) -> None:
        await trio.lowlevel.checkpoint()


def doors_of(ctx: Context) -> dict[str, Door]:
    """Every verb of a context."""
    soon = {"payload": "hi", "after_s": 1}
    return {
        "reply": Door(ctx.reply, {"content": "hi", "on_uncertain": None}),
        **{f"reply, {kind}": door for kind, door in contents(cast("Callable[[object], object]", ctx.reply)).items()},
        "send": Door(ctx.send, SEND),
        "send_now": Door(ctx.send_now, {"name": "n", "content": "hi", "on_uncertain": None}),
        "step": Door(ctx.step, {"name": "n", "fn": lambda: 1}),
        "step, what comes of it": Door(lambda made: ctx.step("n", lambda: made), {"made": 1}),
        "step_key": Door(ctx.step_key, {"name": "n"}),
        "publish": Door(ctx.publish, EVENT),
        "publish, a text": Door(ctx.publish, {"topic": "chat.quiet", "payload": "hi", "key": "fake:q"}),
        "publish, a header": Door(lambda value: ctx.publish("log", {}, headers={"a": value}), {"value": "b"}),
        "schedule": Door(ctx.schedule, soon | {"topic": "chat.quiet"}, ("key", "headers")),
        "schedule, at": Door(lambda at: ctx.schedule("hi", at=at, topic="chat.quiet"), {"at": None}),
        "schedule, every": Door(lambda rule: ctx.schedule("hi", every=rule), {"rule": Every(10**8)}),
        "schedule, an event": Door(ctx.schedule, LATER),
        "cancel": Door(ctx.cancel, {"schedule": "timer-0-0-1-0"}),
        "ephemeral": Door(ctx.ephemeral, {"action": Action("typing")}),
        "ephemeral, an action": Door(lambda **given: ctx.ephemeral(Action(**given)), {"name": "typing", "data": {}}),
    }  # fmt: skip


OF_THE_RUNTIME: Final = {"check_active", "end", "seal"}
"""What the runtime calls on a context."""

_nobody = cast("Context", type("_", (), {"__getattr__": lambda self, _: self})())
TRIED: Final = [
    f"{verb}/{argument}/{value}"
    for verb, door in doors_of(_nobody).items()
    for argument in door.arguments
    for value in HOSTILE
]


def test_every_verb_of_a_context_has_its_entry() -> None:
    assert public_verbs(Context) - doors_of(_nobody).keys() - OF_THE_RUNTIME == set()


async def test_a_turn_takes_a_value_or_says_why_not_and_ends_well(autojump_clock: MockClock) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    faults: list[str] = []
    topology = Topology()
    topology.topic("log")

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if "/" not in message.payload.text:
            # Of a timer whose topic is left out: on a slow machine a second of the wall clock is over before the end.
            return
        verb, argument, value = message.payload.text.split("/")
        fault = await knock(doors_of(ctx)[verb], argument, HOSTILE[value]())
        if fault is not None:
            faults.append(f"{message.payload.text}: {fault}")

    @topology.on("chat.quiet")
    async def take(ctx: Context, message: BusMessage) -> None:
        """What comes of a publish or a timer."""

    database, channel = MemoryDatabase(), Chatty("fake", CONTENTS)
    async with Runtime.open(topology, store=open_memory(database=database), adapters=[channel]) as runtime:
        await trio.testing.wait_all_tasks_blocked()
        for number, text in enumerate(TRIED):
            await channel.say(str(number % 97), text)
        await until_quiet(runtime, 10_000)
        await trio.sleep(5)
        await until_quiet(runtime, 10_000)

        assert not faults, "\n".join(faults)
        dead = [
            (row.message.topic, row.message.payload.text, row.record.errors)
            for row in runtime.dead_letters.list()
        ]
        assert dead == []
        inbox = runtime.status().inbox
        assert inbox[InboxStatus.DONE] == sum(inbox.values()) >= len(TRIED)
        assert {"crashes", "retried"}.isdisjoint(runtime.counters)
    async with Runtime.open(
        topology, store=open_memory(database=database), adapters=[Chatty("fake", ChannelCaps())]
    ) as runtime:
        assert len(runtime.messages.list(limit=10**6)) >= len(TRIED)
        assert runtime.outbox.list(limit=10**6)
