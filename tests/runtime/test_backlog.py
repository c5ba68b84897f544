"""The bound on all conversations together: edges stop reading, and go on by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import structlog.testing
import trio
import trio.testing
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, RetryLater, Runtime, Topology
from shardline.actors.clock import FakeClock
from shardline.actors.codec import unpack_plain
from shardline.adapters.base import ChannelCaps
from shardline.runtime.defaults import PULSE_S
from shardline.storage.records import InboxStatus
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import new_message

LIMIT = 20


class Steps:
    """Lets turns end one by one."""

    def __init__(self) -> None:
        self._gone = trio.Semaphore(0)
        self.topology = Topology()

        @self.topology.on("chat.message", timeout_s=float("inf"), concurrency=100)
        async def answer(ctx: Context, message: BusMessage) -> None:
            await self._gone.acquire()
            if message.payload.text == "chatty":
                await ctx_publish(new_message("from inside", key=message.conversation_key))
                ctx.publish("chat.message", "decided inside")

        async def ctx_publish(message: BusMessage) -> None:
            assert self.bot is not None
            await self.bot.runtime.publish(message)

        self.bot: Harness | None = None

    def let_go(self, turns: int) -> None:
        for _ in range(turns):
            self._gone.release()


async def fill(bot: Harness) -> None:
    for number in range(LIMIT):
        assert await bot.say(f"fake:{number}", "hi")


@pytest.mark.parametrize("linear", [True, False])
async def test_edges_wait_and_go_on_when_a_tenth_is_worked_off(
    autojump_clock: MockClock, linear: bool
) -> None:
    steps = Steps()
    channel = FakeChannel("fake", ChannelCaps(linear=linear))
    bot = Harness(steps.topology, channels=[channel], max_backlog=LIMIT, store="sqlite-inline")
    with structlog.testing.capture_logs() as logs:
        async with bot, trio.open_nursery() as nursery:
            await fill(bot)
            assert not bot.runtime.status().intake.is_paused or bot.runtime.status().intake.backlog == LIMIT
            nursery.start_soon(bot.say, "fake:late", "hi")
            await trio.sleep(3600)
            intake = bot.runtime.status().intake
            assert (intake.is_paused, intake.backlog, intake.resume_at) == (True, LIMIT, LIMIT - 2)
            assert bot.runtime.messages.list(key="fake:late") == []

            steps.let_go(1)
            await trio.sleep(1)
            assert bot.runtime.messages.list(key="fake:late") == []
            steps.let_go(1)
            await bot.runtime.wait_until(lambda: bool(bot.runtime.messages.list(key="fake:late")))
            assert not bot.runtime.status().intake.is_paused
            steps.let_go(LIMIT)
            await bot.settle()
            assert bot.runtime.status().inbox[InboxStatus.DONE] == LIMIT + 1
            assert bot.runtime.status().intake.backlog == 0
    told = [line["event"] for line in logs if str(line["event"]).startswith("intake.")]
    assert told == ["intake.paused", "intake.resumed"]


async def test_who_waited_for_a_token_does_not_pass_the_bound(autojump_clock: MockClock) -> None:
    """Messages in back-off hold no token, and stay open."""
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if not ctx.failures:
            raise RetryLater(10)
        ctx.reply(message.payload.text)

    told: list[Code] = []

    async def publish(number: int) -> None:
        try:
            await bot.runtime.publish(new_message("hi", key=f"fake:p{number}"), timeout_s=5)
        except BusError as error:
            told.append(error.code)

    async with Harness(topology, max_backlog=LIMIT, max_inflight=8) as bot:
        async with trio.open_nursery() as nursery:
            for number in range(LIMIT):
                nursery.start_soon(bot.say, f"fake:{number}", "hi")
                nursery.start_soon(bot.say, f"fake:more-{number}", "hi")
                nursery.start_soon(publish, number)
            await trio.sleep(6)
            assert bot.runtime.status().intake.backlog == LIMIT
            assert bot.runtime.status().tokens_free == 8
        await bot.settle()
        taken = bot.runtime.status().inbox[InboxStatus.DONE]
        assert (taken + len(told), set(told)) == (3 * LIMIT, {Code.QUEUE_FULL})
        assert bot.runtime.status().tokens_free == 8


async def test_a_publish_waits_too_or_as_long_as_it_may(autojump_clock: MockClock) -> None:
    steps = Steps()
    async with Harness(steps.topology, max_backlog=LIMIT) as bot, trio.open_nursery() as nursery:
        await fill(bot)
        began_s = trio.current_time()
        with pytest.raises(BusError) as full:
            await bot.runtime.publish(new_message("too much", key="fake:b"), timeout_s=2)
        assert full.value.code is Code.QUEUE_FULL
        assert full.value.context["max_backlog"] == LIMIT
        assert trio.current_time() - began_s == pytest.approx(2)
        with pytest.raises(BusError) as at_once:
            await bot.runtime.publish(new_message("too much", key="fake:b"), timeout_s=0)
        assert at_once.value.code is Code.QUEUE_FULL

        nursery.start_soon(bot.runtime.publish, new_message("waits", key="fake:c"))
        await trio.testing.wait_all_tasks_blocked()
        steps.let_go(2)
        await bot.runtime.wait_until(lambda: bool(bot.runtime.messages.list(key="fake:c")))
        assert bot.runtime.messages.list(key="fake:b") == []
        steps.let_go(LIMIT)


async def test_what_a_turn_publishes_does_not_wait_for_itself(autojump_clock: MockClock) -> None:
    steps = Steps()
    async with Harness(steps.topology, max_backlog=1) as bot:
        steps.bot = bot
        await bot.say("fake:a", "chatty")
        steps.let_go(3)
        with trio.fail_after(10):
            await bot.settle()
        assert bot.runtime.status().inbox[InboxStatus.DONE] == 3


async def test_a_stop_ends_the_wait(autojump_clock: MockClock) -> None:
    steps = Steps()
    codes: list[Code] = []

    async def publish(runtime: Runtime) -> None:
        try:
            await runtime.publish(new_message("late"))
        except BusError as error:
            codes.append(error.code)

    async with trio.open_nursery() as nursery:
        async with Harness(steps.topology, max_backlog=1) as bot:
            await bot.say("fake:a", "hi")
            nursery.start_soon(publish, bot.runtime)
            await trio.testing.wait_all_tasks_blocked()
            assert codes == []
            steps.let_go(1)
            bot.runtime.request_stop()
    assert codes in ([Code.BUS_CLOSED], [])


async def test_a_full_store_is_known_as_full_by_the_next_process(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """And whoever looks from outside sees why nothing comes in."""
    path, channel = tmp_path / "bot.db", FakeChannel("fake")
    for max_backlog in (1_000, 5):
        clock, steps = FakeClock(), Steps()
        store = open_sqlite(path, mode="inline", durability="normal", clock=clock)
        async with Runtime.open(
            steps.topology, store=store, adapters=[channel], clock=clock, max_backlog=max_backlog, grace_s=0
        ) as runtime:
            if max_backlog == 1_000:
                for number in range(5):
                    await channel.say(f"{number}", "hi")
                continue
            assert runtime.status().intake.is_paused
            with trio.move_on_after(60):
                await channel.say("late", "hi")
            assert runtime.messages.list(key="fake:late") == []
            await trio.sleep(PULSE_S + 1)
            fact = store.reader.fact("core", "instance_status")
            assert fact is not None
            said = unpack_plain(fact, limit_bytes=65_536)
            assert isinstance(said, Mapping)
            assert (said["intake"], said["backlog"], said["max_backlog"]) == ("paused", 5, 5)
