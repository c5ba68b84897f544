"""Field entries 47 to 50 at every door of a program: what bot authors declare, construct and test with.

Whatever a public verb is given, it works or raises a BusError. A new public name without an entry fails here.
"""

# What is handed over here has no types: that is the point.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs
import pytest
import trio

import shardline
import shardline.content
import shardline.plugins
import shardline.testing
from shardline import (
    Breaker,
    BusError,
    BusMessage,
    Code,
    Context,
    Cron,
    Event,
    Every,
    Extensions,
    MessageEnvelope,
    Permanent,
    RetryLater,
    RetryPolicy,
    Topology,
    conversation_key,
    error_code_of,
    shard_of,
)
from shardline.actors.plain import Plain
from shardline.adapters.base import ChannelCaps, Inbound, NotSent, Outbound, RateLimits, Sent, Uncertain
from shardline.content import Action, Delete, Edit, Media, SendRef, Text
from shardline.plugins import known_adapters, load_adapter, settings_of
from shardline.runtime.rates import Rate
from shardline.runtime.retention import Retention
from shardline.storage.port import Caps
from shardline.testing import FakeChannel, Harness, adapter_kit, store_kit
from tests.kits.doors import Door, faults_of, public_verbs
from tests.kits.words import make_envelope, make_message


async def answer(ctx: Context, message: BusMessage) -> None:
    """A handler."""


def on(**options: object) -> None:
    function, topic = options.pop("function"), options.pop("topic")
    declare: Callable[..., Callable[..., object]] = Topology().on
    declare(topic, **options)(function)


def every(**options: object) -> None:
    topology = Topology()
    topology.topic("log")
    topology.on("chat.message")(answer)
    declare: Callable[..., object] = topology.every
    declare(**options)
    topology.freeze()


def upgrade(state: dict[str, Plain], version: int) -> dict[str, Plain]:
    return {**state, "from": version}


def fields_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(kind) if field.init)


def declared(verb: str, **good: object) -> Door:
    def call(**given: object) -> object:
        verb_of: Callable[..., object] = getattr(Topology(), verb)
        return verb_of(**given)

    return Door(call, good)


REF: Final = SendRef("fake", "k")
CAPS: Final = Caps(shared="process", durable="process", emits="atomic")
MESSAGE: Final = {name: getattr(make_message(), name) for name in fields_of(BusMessage)}
ENVELOPE: Final = {name: getattr(make_envelope(), name) for name in fields_of(MessageEnvelope)}
TIMES: Final = {"headers": None, "topic": "log", "key": None}

TEXTS: Final = {"name": "n", "rule": Every(5), "payload": "hi", "topic": "chat.message", "key": "fake:1"}
OPTIONS: Final = ("channel", "concurrency", "timeout_s", "retry", "breaker", "album_s")
SEEN: Final = ("address", "sender", "sent_at")
BOUNDS: Final = ("max_inflight", "send_retry", "max_lane_backlog", "max_backlog", "start_us")

DOORS: Final[Mapping[str, Door]] = {
    "Breaker": Door(Breaker, also=fields_of(Breaker)),
    "BusError": Door(lambda code, message: repr(BusError(code, message)), {"code": Code.NOT_FOUND, "message": "no"}),
    "BusMessage": Door(BusMessage, MESSAGE),
    "Cron": Door(Cron, {"expression": "* * * * *", "zone": "UTC"}),
    "Cron.daily": Door(Cron.daily, {"at": "02:30", "zone": "UTC"}),
    "Event": Door(Event, {"id": "1", "ts_us": 1, "topic": "log"}, fields_of(Event)),
    "Every": Door(Every, {"seconds": 5}),
    "Extensions": Door(Extensions, also=fields_of(Extensions)),
    "MessageEnvelope": Door(MessageEnvelope, ENVELOPE),
    "Permanent": Door(lambda code, message: repr(Permanent(code, message)), {"code": "x.no", "message": "no"}),
    "RetryLater": Door(RetryLater, {"after_s": 1, "message": "no"}),
    "RetryPolicy": Door(RetryPolicy, also=fields_of(RetryPolicy)),
    "conversation_key": Door(conversation_key, {"prefix": "tg", "id": "1"}),
    "error_code_of": Door(error_code_of, {"exc": None}),
    "shard_of": Door(shard_of, {"key": "tg:1", "shard_count": 4}),
    "Topology.every": Door(every, {"name": "n", "rule": Every(5), "payload": {}, **TIMES}),
    "Topology.every, a text": Door(every, TEXTS),
    "Topology.freeze": Door(lambda: Topology().freeze()),
    "Topology.on": Door(on, {"topic": "chat.message", "function": answer}, OPTIONS),
    "Topology.state": declared("state", version=2, upgrade=upgrade),
    "Topology.topic": declared("topic", name="log", partitions=None, retention_s=None, ttl_s=None),
    "content.Action": Door(Action, {"name": "pin", "data": {}}),
    "content.Delete": Door(Delete, {"ref": REF}),
    "content.Edit": Door(Edit, {"ref": REF, "text": "hi"}),
    "content.Media": Door(Media, {"kind": "photo"}, fields_of(Media)),
    "content.SendRef": Door(SendRef, {"channel": "fake", "idempotency_key": "k", "part": 0}),
    "content.Text": Door(Text, {"text": "hi"}),
    "plugins.known_adapters": Door(known_adapters),
    "plugins.load_adapter": Door(load_adapter, {"name": "telegram", "settings": {"token": "123:abc"}}),
    "plugins.settings_of": Door(settings_of, {"name": "telegram", "environ": {"SHARDLINE_TELEGRAM_TOKEN": "1"}}),
    "testing.FakeChannel": Door(FakeChannel, also=("name", "caps")),
    "testing.Harness": Door(Harness, {"topology": Topology()}, ("channels", "store", "seed", *BOUNDS)),
    "testing.adapter_kit": Door(adapter_kit, {"make": answer, "caps": ChannelCaps()}),
    "testing.store_kit": Door(store_kit, {"open_store": answer, "caps": CAPS}),
    "ChannelCaps": Door(ChannelCaps, also=fields_of(ChannelCaps)),
    "Inbound": Door(Inbound, {"platform_message_id": "1", "address": "a", "text": "hi"}, fields_of(Inbound)),
    "Inbound.unknown": Door(Inbound.unknown, {"platform_message_id": "1", "raw": b"{}"}, SEEN),
    "NotSent": Door(NotSent, {"code": Code.NOT_FOUND, "permanence": "permanent"}, fields_of(NotSent)),
    "Outbound": Door(Outbound, dict.fromkeys(fields_of(Outbound), "1")),
    "Rate": Door(Rate, {"per_s": 1.0, "burst": 1}),
    "RateLimits": Door(RateLimits, also=fields_of(RateLimits)),
    "Retention": Door(Retention, also=fields_of(Retention)),
    "Sent": Door(Sent, {"platform_message_id": "1", "deduped": False}),
    "Uncertain": Door(Uncertain, {"reason": "no answer"}),
}  # fmt: skip
"""Every public name that a program calls outside of a runtime."""

ELSEWHERE: Final = {
    "Context": "test_f47_f50_doors_turn.py",
    "Runtime": "test_f47_f50_doors_runtime.py",
    "run": "test_f47_f50_doors_runtime.py",
    "Topology": "its verbs are entries of their own",
    "testing.FakeEdge": "a measuring device of tests, without a runtime behind it",
    "testing.KitCheck": "made by the kits",
    "testing.run": "below: it opens a trio run of its own",
    **dict.fromkeys(("testing.MakePlatform", "testing.OpenStore", "testing.Platform"), "types"),
    **dict.fromkeys(("Code", "Direction", "ExitCode", "Permanence"), "enumerations"),
    **dict.fromkeys(("Delivered", "Handled", "Receipt", "ScheduleId", "Status"), "what verbs return"),
    **dict.fromkeys(("SendRef", "content.Content"), "the same as, or made of, what is in `content`"),
}
"""Public names without an entry here, and why."""


def test_every_public_name_has_its_entry() -> None:
    names = set(shardline.__all__)
    for module in (shardline.content, shardline.plugins, shardline.testing):
        names |= {f"{module.__name__.removeprefix('shardline.')}.{name}" for name in module.__all__}
    names |= {f"Topology.{verb}" for verb in public_verbs(Topology)}

    assert names - DOORS.keys() - ELSEWHERE.keys() == set()
    assert ELSEWHERE.keys() - names == set(), "no longer public"


@pytest.mark.parametrize("name", DOORS)
async def test_a_door_takes_a_value_or_says_why_not(name: str) -> None:
    assert await faults_of(DOORS[name]) == []


def test_a_run_of_what_is_no_async_function_is_refused() -> None:
    async def in_a_thread(main: Callable[[], Awaitable[object]]) -> None:
        # A trio run of its own.
        await trio.to_thread.run_sync(shardline.testing.run, main)

    assert trio.run(faults_of, Door(in_a_thread, {"main": answer})) == []
