"""Field entries 19 to 24 with Telegram's edge: the platform plays in a process of its own, its calls are the proof."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import cast

import attrs
import pytest
import trio

from shardline import BusMessage, Code, Context, RetryPolicy, Runtime, Topology
from shardline.adapters.telegram import Telegram
from shardline.storage.memory import open_memory
from shardline.storage.records import OutboxRecord, OutboxState
from tests.adapters.telegram.platform import FREE
from tests.adapters.telegram.test_command import sim
from tests.adapters.telegram.test_refusals import tell

LIMIT_S = 40.0
SOON = RetryPolicy(max_retries=5, base_delay_s=0.05, max_delay_s=0.2)
EVER = RetryPolicy(max_retries=10_000, base_delay_s=0.05, max_delay_s=0.2)
UNIT = 4_096
PARTS = [letter * UNIT for letter in "abcd"]


@attrs.define
class Case:
    """One bot on the wire."""

    base: str
    token: str
    runtime: Runtime

    async def tell(self, verb: str, told: object) -> dict[str, object]:
        return await tell(self.base, self.token, verb, told)

    async def calls(self) -> list[tuple[int, str, bool]]:
        """Chat, text and whether a message was made, of each sendMessage, in order."""
        found = cast("list[dict[str, object]]", (await self.tell("calls", {}))["calls"])
        sends = [call for call in found if call["method"] == "sendMessage"]
        fields = [cast("dict[str, object]", call["fields"]) for call in sends]
        return [
            (cast("int", one["chat_id"]), str(one["text"]), call["message_id"] is not None)
            for one, call in zip(fields, sends, strict=True)
        ]

    def rows(self, chat: int) -> list[OutboxRecord]:
        found = [row.record for row in self.runtime.outbox.list(key=f"tg:{chat}")]
        return sorted(found, key=lambda record: (record.seq, record.part))

    async def until(self, condition: object) -> None:
        assert callable(condition)
        with trio.fail_after(LIMIT_S):
            await self.runtime.wait_until(lambda: bool(condition()))


def words() -> Topology:
    """Answers with each word; `parts` with a text of four parts."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        for word in message.payload.text.split(","):
            ctx.reply("".join(PARTS) if word == "parts" else word)

    return topology


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with sim(tmp_path_factory.mktemp("sim"), {}) as address:
        yield address


@asynccontextmanager
async def case(
    base: str, number: int, said: dict[int, str], *faults: dict[str, object], retry: RetryPolicy = SOON
) -> AsyncGenerator[Case]:
    """A bot to which these chats say these words."""
    token = f"{9400 + number}:wire"
    for fault in faults:
        await tell(base, token, "fault", {"method": "sendMessage", "kind": "refuse", **fault})
    for chat, text in said.items():
        await tell(base, token, "say", {"chat": chat, "text": text})
    adapter = Telegram(token, api_base=base, limits=FREE)
    try:
        async with Runtime.open(
            words(), store=open_memory(), adapters=[adapter], send_retry=retry
        ) as runtime:
            yield Case(base, token, runtime)
    finally:
        await adapter.aclose()


async def test_f20_a_permanent_refusal_is_one_call_whatever_its_text(base: str) -> None:
    refusal = {"code": 400, "description": "network unreachable timeout 429", "times": -1}
    async with case(base, 20, {5: "hi"}, refusal) as bot:
        await bot.until(lambda: [row.state for row in bot.rows(5)] == [OutboxState.DEAD])

        [row] = bot.rows(5)
        assert (row.attempts, row.errors[-1].code) == (1, Code.CONTENT_REFUSED)
        assert await bot.calls() == [(5, "hi", False)]


async def test_f21_part_two_of_four_gets_no_answer(base: str) -> None:
    """Sent, uncertain, held, held; marked as delivered it lets the others go; no part goes out twice."""
    async with case(base, 21, {5: "parts"}, {"kind": "drop_after", "after": 1}) as bot:
        await bot.until(lambda: OutboxState.UNCERTAIN in [row.state for row in bot.rows(5)])
        await bot.until(lambda: bot.runtime.is_quiet)
        rows = bot.rows(5)
        desk = bot.runtime.outbox
        states = ["held" if desk.is_held(row) else row.state.value for row in rows]
        assert states == ["sent", "uncertain", "held", "held"]
        assert await bot.calls() == [(5, part, True) for part in PARTS[:2]]

        await desk.resolve(rows[1].id, "sent")
        await bot.until(lambda: {row.state for row in bot.rows(5)} == {OutboxState.SENT})
        assert await bot.calls() == [(5, part, True) for part in PARTS]


async def test_f22_a_503_holds_its_own_chat_alone(base: str) -> None:
    """m1 is refused until m3 of another chat is out, and twice at least; then m1 goes before m2."""
    busy = {"code": 503, "text": "m1", "times": -1}
    async with case(base, 22, {1: "m1,m2", 2: "m3"}, busy, retry=EVER) as bot:
        await bot.until(lambda: [row.state for row in bot.rows(2)] == [OutboxState.SENT])
        await bot.until(lambda: len(bot.rows(1)[0].errors) >= 2)
        assert {text for chat, text, _ in await bot.calls() if chat == 1} == {"m1"}

        await bot.tell("calm", {})
        await bot.until(lambda: [row.state for row in bot.rows(1)] == [OutboxState.SENT] * 2)
        calls = await bot.calls()

    assert [text for _, text, is_made in calls if is_made] == ["m3", "m1", "m2"]
    assert calls.count((1, "m2", True)) == len([text for _, text, _ in calls if text == "m2"]) == 1


async def test_f22_two_times_503_and_then_in_order(base: str) -> None:
    async with case(base, 122, {1: "m1,m2"}, {"code": 503, "text": "m1", "times": 2}) as bot:
        await bot.until(lambda: [row.state for row in bot.rows(1)] == [OutboxState.SENT] * 2)

        assert await bot.calls() == [(1, "m1", False), (1, "m1", False), (1, "m1", True), (1, "m2", True)]


async def test_f23_a_dead_head_releases_the_next(base: str) -> None:
    async with case(base, 23, {1: "m1,m2"}, {"code": 400, "text": "m1", "times": -1}) as bot:
        await bot.until(lambda: [row.state for row in bot.rows(1)] == [OutboxState.DEAD, OutboxState.SENT])

        assert await bot.calls() == [(1, "m1", False), (1, "m2", True)]


POISON: dict[str, object] = {"code": 500, "text": "bad", "times": -1}
SAID = dict.fromkeys(range(1, 11), "bad") | {11: "good"}


async def test_f24_ten_chats_that_fail_for_ever_hold_up_no_eleventh(base: str) -> None:
    async with case(base, 24, SAID, POISON, retry=EVER) as bot:
        await bot.until(lambda: [row.state for row in bot.rows(11)] == [OutboxState.SENT])

        assert not [chat for chat in range(1, 11) for row in bot.rows(chat) if row.state is OutboxState.DEAD]


async def test_f24_each_of_the_ten_is_tried_as_often_as_it_may_be(base: str) -> None:
    async with case(base, 124, SAID, POISON) as bot:
        await bot.until(
            lambda: all([row.state for row in bot.rows(chat)] == [OutboxState.DEAD] for chat in range(1, 11))
        )
        await bot.until(lambda: [row.state for row in bot.rows(11)] == [OutboxState.SENT])
        calls = await bot.calls()

    tries = [sum(chat == one for one, _, _ in calls) for chat in range(1, 12)]
    assert tries == [SOON.max_retries + 1] * 10 + [1]
