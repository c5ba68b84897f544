"""The bound on one conversation: exact, typed, and never met by what a handler, a person or a restart brings."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import structlog.testing
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Permanent, Runtime, Topology
from shardline.actors.clock import FakeClock
from shardline.adapters.base import ChannelCaps
from shardline.storage.records import InboxStatus
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import new_message
from tests.kits.controlled import query
from tests.kits.operated import operate

LIMIT = 50
CAN_ANSWER = ChannelCaps(linear=False)


def gated(go: trio.Event) -> Topology:
    """Handles nothing until `go`; `bad` dies then."""
    topology = Topology()

    @topology.on("chat.message", timeout_s=float("inf"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        await go.wait()
        if message.payload.text == "bad":
            raise Permanent("x.bad", "no")
        ctx.reply(message.payload.text)

    return topology


async def fill(bot: Harness, key: str = "fake:a") -> None:
    """One at work and as many waiting as may."""
    for number in range(LIMIT + 1):
        assert await bot.say(key, f"text {number}")


@pytest.mark.parametrize("max_inflight", [16, 1024])
async def test_an_edge_that_can_answer_refuses_exactly_what_is_too_much(
    autojump_clock: MockClock, max_inflight: int
) -> None:
    """Also where most of the conversation waits on disk alone."""
    go = trio.Event()
    channel = FakeChannel("fake", CAN_ANSWER)
    bot = Harness(gated(go), channels=[channel], max_lane_backlog=LIMIT, max_inflight=max_inflight)
    async with bot:
        await fill(bot)
        with pytest.raises(BusError) as full:
            await bot.say("fake:a", "too much")
        assert full.value.code is Code.QUEUE_FULL
        assert full.value.context == {"conversation_key": "fake:a", "limit": LIMIT}
        assert await bot.say("fake:b", "another conversation")

        go.set()
        await bot.settle()
        assert bot.sent("fake:a") == [f"text {number}" for number in range(LIMIT + 1)]
        assert await bot.say("fake:a", "again")
        await bot.settle()
        status = bot.runtime.status()
        assert status.inbox[InboxStatus.REFUSED] == 0
        assert status.tokens_free == max_inflight


async def test_a_refusal_waits_for_no_token(autojump_clock: MockClock) -> None:
    """All tokens are taken by others: a full conversation is told so at once."""
    go = trio.Event()
    channel = FakeChannel("fake", CAN_ANSWER)
    async with Harness(gated(go), channels=[channel], max_lane_backlog=1, max_inflight=8) as bot:
        await bot.say("fake:a", "1")
        await bot.say("fake:a", "2")
        for number in range(7):
            await bot.say(f"fake:other-{number}", "3")
        assert bot.runtime.status().tokens_free == 0
        with trio.fail_after(0.1), pytest.raises(BusError) as full:
            await bot.say("fake:a", "4")
        assert full.value.code is Code.QUEUE_FULL


async def test_many_at_once_are_counted_one_by_one(autojump_clock: MockClock) -> None:
    go = trio.Event()
    async with Harness(gated(go), max_lane_backlog=LIMIT) as bot:
        taken: list[bool] = []

        async def say(number: int) -> None:
            taken.append(await bot.say("fake:a", f"text {number}"))

        async with trio.open_nursery() as nursery:
            for number in range(4 * LIMIT):
                nursery.start_soon(say, number)

        assert sum(taken) == LIMIT + 1
        assert bot.runtime.status().inbox[InboxStatus.REFUSED] == 4 * LIMIT - LIMIT - 1


async def test_a_linear_edge_stores_what_is_too_much_and_goes_on(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    go = trio.Event()
    path, clock, channel = tmp_path / "bot.db", FakeClock(), FakeChannel("fake")
    store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
    with structlog.testing.capture_logs() as logs:
        async with Runtime.open(
            gated(go), store=store, adapters=[channel], clock=clock, max_lane_backlog=2, grace_s=0
        ) as runtime:
            said = [await channel.say("a", f"text {number}") for number in range(6)]
            assert said == [True, True, True, False, False, False]
            assert not await channel.say("a", "a repeat", platform_message_id="a:5")
            rows = runtime.messages.list(status=InboxStatus.REFUSED)
            assert [row.message.payload.text for row in rows] == ["text 5", "text 4", "text 3"]
            assert {row.record.errors[0].code for row in rows} == {"QUEUE_FULL"}
            status = runtime.status()
            assert (status.run["refused"], status.run["accepted"], status.run["duplicates"]) == (3, 3, 1)

            go.set()
            with trio.fail_after(10):
                await runtime.wait_until(lambda: runtime.is_quiet)
            # Nothing runs them, and no answer is owed.
            assert [out.text for out in channel.delivered] == ["text 0", "text 1", "text 2"]
    assert [line["event"] for line in logs].count("lane.filled") == 1
    listed = operate("inbox", "list", "status=refused", "--store", path)
    assert listed.stdout.count("QUEUE_FULL") == 3


async def test_a_channel_that_can_stand_still_waits_instead(autojump_clock: MockClock) -> None:
    go = trio.Event()
    channel = FakeChannel("fake", ChannelCaps(waits=True))
    async with (
        Harness(gated(go), channels=[channel], max_lane_backlog=2) as bot,
        trio.open_nursery() as nursery,
    ):
        for number in range(6):
            nursery.start_soon(bot.say, "fake:a", f"text {number}")
        await trio.sleep(1)
        assert bot.runtime.status().inbox[InboxStatus.QUEUED] == 2
        await bot.say("fake:b", "passes")
        go.set()
        await bot.runtime.wait_until(lambda: len(bot.sent("fake:a")) == 6)
        assert bot.runtime.status().inbox[InboxStatus.REFUSED] == 0


@pytest.mark.parametrize("validated", [True, False])
async def test_a_publish_beyond_it_is_queue_full_at_once(autojump_clock: MockClock, validated: bool) -> None:
    go = trio.Event()
    async with Harness(gated(go), max_lane_backlog=LIMIT) as bot:
        publish = bot.runtime.publish_validated if validated else bot.runtime.publish
        for number in range(LIMIT + 1):
            await publish(new_message(f"text {number}"))
        with trio.fail_after(0.1), pytest.raises(BusError) as full:
            await publish(new_message("too much"))

        assert full.value.code is Code.QUEUE_FULL
        assert full.value.context == {"conversation_key": "fake:a", "limit": LIMIT}
        assert bot.runtime.status().tokens_free > 0


async def test_a_repeat_of_what_a_full_conversation_has_gets_its_first_receipt(
    autojump_clock: MockClock,
) -> None:
    """Whoever lost the first answer must not learn that there was no room."""
    go = trio.Event()
    channel = FakeChannel("fake", CAN_ANSWER)
    async with Harness(gated(go), channels=[channel], max_lane_backlog=LIMIT) as bot:
        messages = [new_message(f"text {number}") for number in range(LIMIT + 1)]
        receipts = [await bot.runtime.publish(message) for message in messages]
        await fill(bot, "fake:b")
        for message, first in zip(messages, receipts, strict=True):
            assert await bot.runtime.publish(message, timeout_s=1) == attrs.evolve(first, duplicate=True)
        for number in range(1, LIMIT + 2):
            assert not await bot.say("fake:b", "again", platform_message_id=f"b:{number}")
        # They have taken no place and no token.
        for key in ("fake:a", "fake:b"):
            with pytest.raises(BusError) as full:
                await bot.say(key, "too much", platform_message_id=f"{key}:new")
            assert full.value.code is Code.QUEUE_FULL
        go.set()
        await bot.settle()
        assert len(bot.sent("fake:a")) == len(bot.sent("fake:b")) == LIMIT + 1
        assert bot.runtime.status().tokens_free == 1024


async def test_handlers_and_people_are_never_refused(autojump_clock: MockClock) -> None:
    go = trio.Event()
    topology = gated(go)

    @topology.on("dm.reply.v1")
    async def pour(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "bad":
            raise Permanent("x.bad", "no")
        for number in range(3):
            ctx.publish("chat.message", f"poured {number}", key="fake:a")

    async with Harness(topology, max_lane_backlog=2) as bot:
        await bot.runtime.publish(attrs.evolve(new_message("bad", key="fake:a"), topic="dm.reply.v1"))
        await bot.runtime.wait_until(lambda: bool(bot.dead()))
        for number in range(4):
            await bot.say("fake:a", f"text {number}")
        await bot.runtime.publish(attrs.evolve(new_message("now", key="fake:b"), topic="dm.reply.v1"))
        await bot.requeue(bot.dead()[0].record.id)
        await trio.sleep(1)

        counts = bot.runtime.status().inbox
        # One of four said was too much; three that a handler made and one that a person did are not.
        assert (counts[InboxStatus.REFUSED], counts[InboxStatus.RUNNING]) == (1, 1)
        assert counts[InboxStatus.QUEUED] == 2 + 3 + 1
        assert not await bot.say("fake:a", "and still full")


@pytest.mark.parametrize("says_at_once", [1, 8])
async def test_the_count_is_exact_after_a_restart(
    autojump_clock: MockClock, tmp_path: Path, says_at_once: int
) -> None:
    """What the last process left is counted on disk, once; what comes and goes after it beside it."""
    path, channel = tmp_path / "bot.db", FakeChannel("fake", CAN_ANSWER)

    async def run(said: int) -> list[str]:
        refused: list[str] = []
        clock = FakeClock()
        store = open_sqlite(path, mode="inline", durability="normal", clock=clock)

        async def say() -> None:
            try:
                await channel.say("a", "hi")
            except BusError as error:
                refused.append(error.code)

        async with Runtime.open(
            gated(trio.Event()),
            store=store,
            adapters=[channel],
            clock=clock,
            max_lane_backlog=LIMIT,
            max_inflight=16,
            grace_s=0,
        ):
            for _ in range(said // says_at_once):
                async with trio.open_nursery() as nursery:
                    for _ in range(says_at_once):
                        nursery.start_soon(say)
            await trio.sleep(1)
        return refused

    assert await run(40) == []
    # One of the 40 is at work again, or still waits when the first ones come.
    assert len(await run(16)) in {5, 6}
    assert len(await run(16)) in {15, 16}
    left = query(path, "SELECT count(*) FROM inbox WHERE status = 'queued'")
    assert left[0][0] in {LIMIT, LIMIT + 1}


@pytest.mark.parametrize(("lane", "all_lanes"), [(0, 1), (1, 0)])
async def test_a_bound_below_one_is_refused(autojump_clock: MockClock, lane: int, all_lanes: int) -> None:
    with pytest.raises(BusError) as refused:
        async with Harness(gated(trio.Event()), max_lane_backlog=lane, max_backlog=all_lanes):
            pass
    assert refused.value.code is Code.INVALID_MESSAGE
