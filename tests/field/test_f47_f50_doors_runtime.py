"""Field entries 47 to 50 at every door of a runtime: publishing, sending, deciding, reading, and a test's harness.

Whatever a verb is given, it works or raises a BusError; the runtime goes on, and everything stored can be read back.
"""

# What is handed over here has no types: that is the point.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, cast

import attrs
import pytest
import structlog
import trio
from trio.testing import MockClock

from shardline import BusMessage, Direction, Event, ExitCode, Runtime, run
from shardline.actors.identifiers import new_uuid7
from shardline.adapters.base import ChannelCaps, Inbound
from shardline.content import Action, Delete, Edit, Media, SendRef, Text
from shardline.runtime.operators import DeadLetters, Messages, OutboxDesk
from shardline.runtime.sender import Sender
from shardline.runtime.timer_desk import TimerDesk
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.port import Store
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import counting_bot, new_message, until_quiet
from tests.kits.doors import HOSTILE, Door, faults_of, public_verbs
from tests.kits.words import spoiled

CONTENTS: Final = ChannelCaps(contents=("text", "media", "edit", "delete", "action"))
REF: Final = SendRef("fake", "k")
WAITS: Final = ("timeout_s", "wait")
ERRORS: Final = ("key", "channel", "code", "own_code")
PAGE: Final = ("key", "offset", "limit")


def new_event(**fields: object) -> Event:
    event = Event(id=new_uuid7(), ts_us=1_767_225_600_000_000, topic="log", payload={"n": 1})
    return spoiled(event, **fields)


def names_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(kind) if field.init)


def contents(send: Callable[[object], object]) -> dict[str, Door]:
    """Each kind of content, each of its fields."""
    return {
        "Text": Door(lambda **given: send(Text(**given)), {"text": "hi"}),
        "Media": Door(
            lambda **given: send(Media(**given)), {"kind": "photo", "file_id": "1"}, names_of(Media)
        ),
        "Media of a path": Door(lambda path: send(Media("photo", path=path)), {"path": "none.jpg"}),
        "Edit": Door(lambda **given: send(Edit(**given)), {"ref": REF, "text": "hi"}),
        "Edit of a send": Door(
            lambda **given: send(Edit(SendRef(**given), "hi")),
            {"channel": "fake", "idempotency_key": "k", "part": 0},
        ),
        "Delete": Door(lambda ref: send(Delete(ref)), {"ref": REF}),
        "Action": Door(lambda **given: send(Action(**given)), {"name": "pin", "data": {}}),
    }


def doors_of(runtime: Runtime, channel: FakeChannel) -> dict[str, Door]:
    """Every verb of a runtime and its desks."""
    count = iter(range(10**9))
    sent: dict[str, object] = {"channel": "fake", "key": "fake:s", "content": "hi", "idempotency_key": "k"}
    quick = {"bulk": False, "on_uncertain": None, "timeout_s": 1}

    def send(content: object) -> object:
        key = f"content-{next(count)}"
        return runtime.sender.send("fake", "fake:s", cast("str", content), key, timeout_s=1)

    def accept(**given: object) -> object:
        assert channel.edge is not None
        take: Callable[..., object] = channel.edge.accept
        return take(**given)

    def accept_one(**fields: object) -> object:
        number = str(next(count))
        return accept(inbound=spoiled(Inbound(platform_message_id=number, address="e", text="hi"), **fields))

    def publish(**fields: object) -> object:
        return runtime.publish(spoiled(new_message("hi", key="fake:p"), **fields))

    def publish_out(**fields: object) -> object:
        return runtime.publish(
            spoiled(new_message("hi", key="fake:p", direction=Direction.OUTBOUND), **fields)
        )

    def publish_checked(**fields: object) -> object:
        return runtime.publish_validated(spoiled(new_message("hi", key="fake:p"), **fields))

    def edge(verb: str) -> Callable[..., object]:
        found: Callable[..., object] = getattr(channel.edge, verb)
        return found

    def once(idem: str) -> BusMessage:
        return new_message("hi", key="fake:p", idem=idem)

    message = names_of(type(new_message("")))
    envelope = names_of(type(new_message("").payload))

    def publish_said(**fields: object) -> object:
        whole = new_message("hi", key="fake:p")
        return runtime.publish(spoiled(whole, payload=spoiled(whole.payload, **fields)))

    one = Inbound(platform_message_id="1", address="e", text="hi")
    return {
        "Runtime.publish": Door(runtime.publish, {"message": once("a")}, WAITS),
        "Runtime.publish, a message": Door(publish, also=message),
        "Runtime.publish, a send": Door(publish_out, also=message),
        "Runtime.publish, what is said": Door(publish_said, also=envelope),
        "Runtime.publish, an event": Door(lambda **fields: runtime.publish(new_event(**fields)), also=names_of(Event)),
        "Runtime.publish_validated": Door(runtime.publish_validated, {"message": once("b")}, ("timeout_s",)),
        "Runtime.publish_validated, a message": Door(publish_checked, also=message),
        "Runtime.wait_until": Door(runtime.wait_until, {"condition": lambda: True}),
        "Runtime.status": Door(runtime.status),
        "Runtime.health": Door(runtime.health),
        "Runtime.metrics": Door(runtime.metrics),
        "DeadLetters.list": Door(runtime.dead_letters.list, also=PAGE),
        "DeadLetters.show": Door(runtime.dead_letters.show, {"row_id": 1}),
        "DeadLetters.requeue": Door(runtime.dead_letters.requeue, also=("row_id",)),
        "DeadLetters.requeue_where": Door(runtime.dead_letters.requeue_where, {"limit": 1}, ("topic", *ERRORS)),
        "DeadLetters.purge": Door(runtime.dead_letters.purge, {"older_than_us": 0}),
        "Messages.list": Door(runtime.messages.list, also=("status", *PAGE)),
        "OutboxDesk.list": Door(runtime.outbox.list, also=("state", *PAGE)),
        "OutboxDesk.is_held": Door(runtime.outbox.is_held, also=("record",)),
        "OutboxDesk.resolve": Door(runtime.outbox.resolve, {"row_id": 1, "decision": "dead"}),
        "OutboxDesk.requeue": Door(runtime.outbox.requeue, {"row_id": 1}),
        "OutboxDesk.requeue_where": Door(runtime.outbox.requeue_where, {"limit": 1}, ERRORS),
        "OutboxDesk.cancel": Door(runtime.outbox.cancel, {"row_id": 1, "reason": "no"}),
        "Sender.send": Door(runtime.sender.send, sent | quick),
        **{f"Sender.send, {kind}": door for kind, door in contents(send).items()},
        "TimerDesk.list": Door(runtime.timers.list, also=("topic", *PAGE)),
        "TimerDesk.cancel": Door(runtime.timers.cancel, {"timer_id": "timer-0-0-1-0"}),
        "Edge.accept": Door(accept, {"inbound": one, "facts": {"pos": "1"}}),
        "Edge.accept, a message": Door(accept_one, also=names_of(Inbound)),
        "Edge.fact": Door(edge("fact"), {"key": "pos"}),
        "Edge.refused": Door(edge("refused"), {"reason": "no words", "where": "line 1"}),
        "Edge.report": Door(edge("report"), {"state": "degraded", "text": "slow", "action": "wait"}),
        "FakeChannel.say": Door(channel.say, {"address": "e", "text": "hi"}, ("sender", "platform_message_id")),
        "FakeChannel.read": Door(channel.read, {"inbound": one}),
    }  # fmt: skip


NO_ARGUMENTS: Final = {"request_stop", "serve", "wait_drained", "wait_stuck", "open"}
"""Verbs of a runtime without an argument, and those that have a test of their own below."""

NAMES: Final = tuple(
    doors_of(
        cast("Runtime", _names := type("_", (), {"__getattr__": lambda self, _: self})()),
        cast("FakeChannel", _names),
    )
)


def test_every_verb_of_a_runtime_has_its_entry() -> None:
    kinds = (Runtime, DeadLetters, Messages, OutboxDesk, Sender, TimerDesk)
    verbs = {f"{kind.__name__}.{verb}" for kind in kinds for verb in public_verbs(kind)}

    assert verbs - set(NAMES) - {f"Runtime.{verb}" for verb in NO_ARGUMENTS} == set()


@pytest.fixture(autouse=True)
def few_words() -> None:
    """A thousand refusals are a thousand lines."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


@pytest.mark.parametrize(
    ("kind", "linear"),
    [
        ("memory", True),
        ("sqlite", False),
        pytest.param("memory", False, marks=pytest.mark.long),
        pytest.param("sqlite", True, marks=pytest.mark.long),
    ],
)
async def test_a_runtime_takes_a_value_or_says_why_not(
    autojump_clock: MockClock, tmp_path: Path, kind: str, linear: bool
) -> None:
    database = MemoryDatabase()

    def store() -> Store:
        return (
            open_memory(database=database)
            if kind == "memory"
            else open_sqlite(tmp_path / "bot.db", mode="inline", durability="normal")
        )

    channel = FakeChannel("fake", attrs.evolve(CONTENTS, linear=linear))
    faults: list[str] = []
    async with Runtime.open(counting_bot(), store=store(), adapters=[channel]) as runtime:
        await trio.testing.wait_all_tasks_blocked()
        for name, door in doors_of(runtime, channel).items():
            with trio.fail_after(100_000):
                faults += [f"{name}: {fault}" for fault in await faults_of(door)]
        assert not faults, "\n".join(faults)
        await channel.say("last", "still there")
        await until_quiet(runtime)
        assert [out.text for out in channel.delivered if out.address == "last"] == ["1: still there"]
        assert "crashes" not in runtime.counters
    async with Runtime.open(
        counting_bot(), store=store(), adapters=[FakeChannel("fake", CONTENTS)]
    ) as runtime:
        assert runtime.messages.list(limit=10**6)
        assert runtime.outbox.list(limit=10**6)


OPENED: Final = (
    "topology", "store", "adapters", "durability", "mode", "shard_count", "max_inflight", "max_lane_backlog",
    "max_backlog", "unhandled", "unsafe_filesystem", "send_retry", "retention", "tracing", "grace_s", "clock", "seed",
    "failpoints", "signals",
)  # fmt: skip


@pytest.mark.parametrize("argument", OPENED)
async def test_a_runtime_is_opened_or_says_why_not(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str
) -> None:
    monkeypatch.chdir(tmp_path)

    async def call(**given: object) -> None:
        options: dict[str, object] = {
            "topology": counting_bot(),
            "store": open_memory(),
            "adapters": [FakeChannel()],
        } | given
        if argument == "store":
            options |= {"mode": "inline", "durability": "normal"}
        open_runtime: Callable[..., AbstractAsyncContextManager[Runtime]] = Runtime.open
        async with open_runtime(**options):
            pass

    assert await faults_of(Door(call, also=(argument,))) == []


async def test_serve_takes_whatever_it_is_told_of_signals(autojump_clock: MockClock) -> None:
    async def serve(signals: bool) -> None:
        async with Runtime.open(counting_bot(), store=open_memory(), adapters=[FakeChannel()]) as runtime:
            runtime.request_stop()
            await runtime.serve(signals=signals)

    assert await faults_of(Door(serve, {"signals": False})) == []


RUN: Final = (
    "durability", "shard_count", "max_inflight", "max_lane_backlog", "max_backlog", "grace_s", "metrics_port",
    "metrics_access", "retention_s", "dedupe_horizon_s", "history_s", "unsafe_filesystem", "config",
    "metrics_token_env",
)  # fmt: skip


@pytest.mark.parametrize("argument", RUN)
def test_run_ends_with_the_code_of_a_bad_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argument: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shardline.runtime.run.trio.run", lambda _main: ExitCode.CLEAN)
    start: Callable[..., None] = run
    for name, make in HOSTILE.items():
        code: object = 0
        try:
            start(counting_bot(), store="bot.db", adapters=[], **{argument: make()})
        except SystemExit as ended:
            code = ended.code
        told = capsys.readouterr().err
        assert code in {0, 2}, name
        assert (told.startswith("shardline: "), told.count("\n")) == (code == 2, int(code == 2)), name
        assert len(told) < 1_000, name


async def test_a_harness_takes_a_value_or_says_why_not(autojump_clock: MockClock) -> None:
    async with Harness(counting_bot()) as bot:
        doors = {
            "advance": Door(bot.advance, {"seconds": 1}),
            "channel": Door(bot.channel, {"name": "fake"}),
            "crash": Door(bot.crash),
            "dead": Door(bot.dead),
            "outbox": Door(bot.outbox, {"key": "fake:1"}),
            "requeue": Door(bot.requeue, {"row_id": 1}),
            "resolve": Door(bot.resolve, {"send": "k", "decision": "sent"}),
            "say": Door(bot.say, {"key": "fake:1", "text": "hi"}, ("sender", "platform_message_id")),
            "sent": Door(bot.sent, {"key": "fake:1"}),
            "settle": Door(bot.settle, {"until_s": 1}),
        }
        faults = {name: found for name, door in doors.items() if (found := await faults_of(door))}

        assert faults == {}
        assert doors.keys() == public_verbs(Harness)
