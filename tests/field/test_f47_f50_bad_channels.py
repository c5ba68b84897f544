"""Field entries 47 to 50 at a channel's two doors: the updates it reads, and the answers to its sends."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from shardline import (
    BusError,
    Runtime,
)
from shardline.actors.errors import Code, Permanence
from shardline.adapters.base import ChannelCaps, Edge, Inbound, NotSent, SendOutcome, Sent, Uncertain
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import OutboxState
from shardline.testing import FakeChannel
from tests.kits.bad_input import LONE
from tests.kits.bots import counting_bot, until_quiet
from tests.kits.words import spoiled

INBOUND: Mapping[str, tuple[Mapping[str, object], Code]] = {
    "address is half an emoji": ({"address": LONE}, Code.INVALID_MESSAGE),
    "address is a number": ({"address": 1497549923779084389}, Code.INVALID_MESSAGE),
    "address is nothing": ({"address": None}, Code.INVALID_MESSAGE),
    "address is empty": ({"address": ""}, Code.INVALID_MESSAGE),
    "text is nothing": ({"text": None}, Code.INVALID_MESSAGE),
    "text is bytes": ({"text": b"hi"}, Code.INVALID_MESSAGE),
    "text over 1 MiB": ({"text": "x" * 1_048_577}, Code.TOO_LARGE),
    "id is half an emoji": ({"platform_message_id": LONE}, Code.INVALID_MESSAGE),
    "id is a number": ({"platform_message_id": 2**63}, Code.INVALID_MESSAGE),
    "id is empty": ({"platform_message_id": ""}, Code.IDEMPOTENCY_KEY_REQUIRED),
    "id over 1 MiB": ({"platform_message_id": "x" * 1_100_000}, Code.TOO_LARGE),
    "sender is half an emoji": ({"sender": LONE}, Code.INVALID_MESSAGE),
    "time is a number": ({"sent_at": 1_760_000_000}, Code.INVALID_MESSAGE),
    "time is a list": ({"sent_at": ["2026"]}, Code.INVALID_MESSAGE),
    "time before 1970": ({"sent_at": "1969-12-31T23:59:59Z"}, Code.INVALID_MESSAGE),
    "topic is no name": ({"topic": LONE}, Code.INVALID_TOPIC),
    "topic of nobody": ({"topic": "no.such"}, Code.INVALID_TOPIC),
    "session is no UUID": ({"session_id": LONE}, Code.INVALID_MESSAGE),
    "extensions are a map": ({"extensions": {}}, Code.INVALID_MESSAGE),
    "raw is text": ({"raw": "{}"}, Code.INVALID_MESSAGE),
    "raw over 256 KiB": ({"raw": b"x" * 262_145}, Code.TOO_LARGE),
}

FACTS: Mapping[str, tuple[object, Code]] = {
    "NaN": ({"pos": math.nan}, Code.INVALID_MESSAGE),
    "half an emoji": ({"pos": LONE}, Code.INVALID_MESSAGE),
    "a key of half an emoji": ({LONE: "1"}, Code.INVALID_MESSAGE),
    "a key that is a number": ({5: "1"}, Code.INVALID_MESSAGE),
    "over 64 KiB": ({"pos": "x" * 65_536}, Code.TOO_LARGE),
    "no map": (["pos"], Code.INVALID_MESSAGE),
}


class Page:
    """A channel that reads one page of updates and stays: how each went."""

    name = prefix = "fake"

    def __init__(self, updates: list[tuple[Inbound, object]], *, linear: bool) -> None:
        self.caps = ChannelCaps(linear=linear)
        self.ends: list[str] = []
        self._updates = updates

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        for inbound, facts in self._updates:
            try:
                stored = await edge.accept(inbound, facts=cast("Mapping[str, str] | None", facts))
            except BusError as error:
                self.ends.append(error.code)
            else:
                self.ends.append("stored" if stored else "passed over")
        await trio.sleep_forever()

    async def send(self, out: object) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        return Sent(None)


def update(number: int, **fields: object) -> Inbound:
    inbound = Inbound(platform_message_id=str(number), address="a", text=f"text {number}")
    return spoiled(inbound, **fields)


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("name", [*INBOUND, *(f"facts: {name}" for name in FACTS)])
async def test_one_bad_update_costs_itself_alone(autojump_clock: MockClock, name: str, linear: bool) -> None:
    fields: Mapping[str, object] = {}
    facts: object = None
    if name.startswith("facts: "):
        facts, code = FACTS[name.removeprefix("facts: ")]
    else:
        fields, code = INBOUND[name]
    page = Page([(update(1), None), (update(2, **fields), facts), (update(3), {"pos": "3"})], linear=linear)
    async with Runtime.open(counting_bot(), store=open_memory(), adapters=[page]) as runtime:
        await trio.testing.wait_all_tasks_blocked()
        await until_quiet(runtime)

        # A channel that reads in one line cannot refuse; it is counted and passed over.
        assert page.ends == ["stored", "passed over" if linear else code, "stored"]
        assert runtime.counters.get("refused", 0) == int(linear)
        assert runtime.counters["handled"] == 2
        assert "crashes" not in runtime.counters


async def test_half_an_emoji_in_a_text_is_replaced_and_the_update_kept_as_it_came(
    autojump_clock: MockClock,
) -> None:
    """Entry 47: three updates, the middle text is the JSON escape \\ud83d alone: three rows, the position advances."""
    bodies = [b'{"text": "one"}', b'{"text": "\\ud83d"}', b'{"text": "three"}']
    updates: list[tuple[Inbound, object]] = [
        (update(number, text=json.loads(body)["text"], raw=body), {"pos": str(number)})
        for number, body in enumerate(bodies)
    ]
    page, database = Page(updates, linear=True), MemoryDatabase()
    async with Runtime.open(counting_bot(), store=open_memory(database=database), adapters=[page]) as runtime:
        await trio.testing.wait_all_tasks_blocked()
        await until_quiet(runtime)

        rows = sorted(runtime.messages.list(), key=lambda row: row.record.seq)
        assert [row.message.payload.text for row in rows] == ["one", "\ufffd", "three"]
        assert [row.message.raw for row in rows] == bodies
        assert page.ends == ["stored"] * 3


ANSWERS: Mapping[str, tuple[object, OutboxState, str]] = {
    "sent as half an emoji": (Sent(LONE), OutboxState.SENT, "\ufffd"),
    "sent as a number": (Sent(cast("str", 9223372036854775808)), OutboxState.SENT, "9223372036854775808"),
    "uncertain of half an emoji": (Uncertain(LONE), OutboxState.UNCERTAIN, "\ufffd"),
    "uncertain of a number": (Uncertain(cast("str", 5)), OutboxState.UNCERTAIN, "5"),
    "refused with half an emoji": (
        NotSent(Code.DELIVERY_PERMANENT, Permanence.PERMANENT, text=LONE), OutboxState.DEAD, "\ufffd",
    ),
    "refused with a code of its own": (
        NotSent(cast("Code", "NO"), Permanence.PERMANENT), OutboxState.UNCERTAIN, "NotSent without a code",
    ),
    "a pause of NaN": (
        NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=math.nan), OutboxState.SENT, "3",
    ),
    "a pause without end": (
        NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=math.inf), OutboxState.SENT, "3",
    ),
    "a pause that is a text": (
        NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=cast("float", "3")), OutboxState.SENT, "3",
    ),
    "a pause past every clock": (
        NotSent(Code.RATE_LIMITED, Permanence.TRANSIENT, retry_after_s=1e300), OutboxState.READY, "",
    ),
    "nothing": (None, OutboxState.UNCERTAIN, "the adapter answered NoneType"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
async def test_what_a_channel_answers_wrongly_costs_that_send_alone(
    autojump_clock: MockClock, name: str
) -> None:
    answer, state, words = ANSWERS[name]
    channel, database = FakeChannel(), MemoryDatabase()
    async with Runtime.open(
        counting_bot(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        channel.script(cast("SendOutcome", answer))
        await channel.say("a", "odd")
        await channel.say("b", "even")
        with trio.move_on_after(60):
            await until_quiet(runtime)
        assert "crashes" not in runtime.counters
    async with Runtime.open(
        counting_bot(), store=open_memory(database=database), adapters=[FakeChannel()]
    ) as runtime:
        (odd,), (even,) = runtime.outbox.list(key="fake:a"), runtime.outbox.list(key="fake:b")
        assert (odd.record.state, even.record.state) == (state, OutboxState.SENT)
        told = [odd.record.platform_message_id or "", *(error.text for error in odd.record.errors)]
        assert words in "".join(told)
