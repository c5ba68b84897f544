"""A time limit that passes: the turn is over when its handler has really ended, also in a thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from shardline import (
    BusError,
    BusMessage,
    Code,
    Context,
    Permanent,
    RetryLater,
    RetryPolicy,
    Runtime,
    Topology,
)
from shardline.storage.memory import open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel, Harness
from tests.kits.bots import texts_to, until_quiet

ONCE_MORE = RetryPolicy(max_retries=1, base_delay_s=0.05, jitter="none")
LIMIT_S = 0.05


async def test_a_turn_over_its_limit_decides_nothing(autojump_clock: MockClock) -> None:
    """Limit 0.2 s; the handler queues A, sleeps 1 s, queues B: nothing is sent. Attempt 2 sends A and B once."""
    topology = Topology()

    @topology.on("chat.message", timeout_s=0.2, retry=ONCE_MORE)
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("A")
        if ctx.failures == 0:
            await trio.sleep(1)
        ctx.reply("B")

    async with Harness(topology) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert bot.sent("fake:a") == ["A", "B"]
        (stored,) = bot.runtime.messages.list(key="fake:a")
        assert [failure.code for failure in stored.record.errors] == ["HANDLER_TIMEOUT"]


class Blocking:
    """A call into a library that knows nothing of cancelling. It ends when the test says so, then uses the context."""

    def __init__(self) -> None:
        self.is_cut = trio.Event()
        self.go_on = threading.Event()
        self.has_ended = threading.Event()
        self.refused: list[Code | str] = []

    def work(self, ctx: Context) -> None:
        assert self.go_on.wait(20)
        self._try(lambda: ctx.reply("from the thread"))
        self._try(lambda: ctx.state.update(late=True))
        self._try(lambda: trio.from_thread.run_sync(ctx.reply, "from the thread, by trio"))
        self.has_ended.set()

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BusError as error:
            self.refused.append(error.code)
        except (trio.Cancelled, trio.RunFinishedError) as error:
            self.refused.append(type(error).__name__)

    async def tell_when_cut(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.is_cut.set()


def stuck_bot(blocking: Blocking, *, abandon: bool) -> Topology:
    """`stuck` blocks in a thread in its first run."""
    topology = Topology()

    @topology.on("chat.message", timeout_s=LIMIT_S, retry=ONCE_MORE)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "stuck" and ctx.failures == 0:
            ctx.reply("A")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(blocking.tell_when_cut)
                await trio.to_thread.run_sync(blocking.work, ctx, abandon_on_cancel=abandon)
                nursery.cancel_scope.cancel()
        ctx.reply(f"re {message.payload.text}")

    return topology


async def test_a_thread_that_cannot_be_cancelled_keeps_its_turn_until_it_ends() -> None:
    blocking, channel = Blocking(), FakeChannel()
    with trio.fail_after(30):
        async with Runtime.open(
            stuck_bot(blocking, abandon=False), store=open_memory(), adapters=[channel]
        ) as runtime:
            await channel.say("a", "stuck")
            await channel.say("a", "behind")
            await blocking.is_cut.wait()

            for number in range(20):
                await channel.say(f"other-{number}", "hi")
            await runtime.wait_until(lambda: len(channel.delivered) == 20)
            status = runtime.status()
            assert (status.running_turns, status.overdue_turns) == (1, 1)
            assert status.inbox[InboxStatus.RUNNING] == 1
            assert status.inbox[InboxStatus.QUEUED] == 1
            assert texts_to("a", channel) == []

            blocking.go_on.set()
            await until_quiet(runtime)
            assert blocking.refused == [Code.STALE_CLAIM] * 3
            assert texts_to("a", channel) == ["re stuck", "re behind"]
            (stuck, _) = runtime.messages.list(key="fake:a")[::-1]
            assert [failure.code for failure in stuck.record.errors] == ["HANDLER_TIMEOUT"]
            status = runtime.status()
            assert (status.running_turns, status.overdue_turns) == (0, 0)


async def test_a_thread_that_is_left_alone_decides_nothing_any_more() -> None:
    blocking, channel = Blocking(), FakeChannel()
    with trio.fail_after(30):
        async with Runtime.open(
            stuck_bot(blocking, abandon=True), store=open_memory(), adapters=[channel]
        ) as runtime:
            await channel.say("a", "stuck")
            await channel.say("a", "behind")
            await until_quiet(runtime)
            assert texts_to("a", channel) == ["re stuck", "re behind"]
            assert runtime.status().overdue_turns == 0

            blocking.go_on.set()
            assert await trio.to_thread.run_sync(blocking.has_ended.wait, 20)
            await until_quiet(runtime)
            assert blocking.refused[:2] == [Code.STALE_CLAIM] * 2
            assert len(blocking.refused) == 3
            assert texts_to("a", channel) == ["re stuck", "re behind"]
            (stuck, _) = runtime.messages.list(key="fake:a")[::-1]
            assert [failure.code for failure in stuck.record.errors] == ["HANDLER_TIMEOUT"]


async def test_a_handler_that_swallows_its_end_is_over_when_it_returns(autojump_clock: MockClock) -> None:
    topology = Topology()
    refused: list[Code] = []
    ended_at: list[float] = []

    @topology.on("chat.message", timeout_s=1, retry=ONCE_MORE)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if ctx.failures == 0:
            ctx.reply("A")
            # As no handler should.
            with contextlib.suppress(trio.Cancelled):
                await trio.sleep_forever()
            with trio.CancelScope(shield=True):
                await trio.sleep(5)
            try:
                ctx.reply("late")
            except BusError as error:
                refused.append(error.code)
            ended_at.append(trio.current_time())
            return
        ctx.reply("B")

    async with Harness(topology) as bot:
        began = trio.current_time()
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert ended_at == [pytest.approx(began + 6, abs=0.1)]
        assert refused == [Code.STALE_CLAIM]
        assert bot.sent("fake:a") == ["B"]
        (stored,) = bot.runtime.messages.list(key="fake:a")
        assert [failure.code for failure in stored.record.errors] == ["HANDLER_TIMEOUT"]


async def test_a_handler_that_returns_with_its_limit_ends_once(autojump_clock: MockClock) -> None:
    """Which of the two came first is chance; either way its decisions count once."""
    topology = Topology()

    @topology.on("chat.message", timeout_s=1, retry=ONCE_MORE)
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply("A")
        if ctx.failures == 0:
            await trio.sleep_until(ctx.deadline_s)

    async with Harness(topology) as bot:
        for number in range(40):
            await bot.say(f"fake:c{number}", "hi")
        await bot.settle()

        for number in range(40):
            assert bot.sent(f"fake:c{number}") == ["A"]
        for row in bot.runtime.messages.list(limit=100):
            codes = [failure.code for failure in row.record.errors]
            assert row.record.status is InboxStatus.DONE
            assert (row.record.failures, codes) in [(0, []), (1, ["HANDLER_TIMEOUT"])]


async def test_one_that_returns_well_but_late_has_taken_too_long(autojump_clock: MockClock) -> None:
    topology = Topology()

    @topology.on("chat.message", timeout_s=1, retry=ONCE_MORE)
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(f"A{ctx.failures}")
        if ctx.failures == 0:
            with trio.CancelScope(shield=True):
                await trio.sleep(2)

    async with Harness(topology) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle()

        assert bot.sent("fake:a") == ["A1"]


@pytest.mark.parametrize(
    ("raised", "status", "own_code", "wait_s"),
    [
        pytest.param(ValueError("odd"), InboxStatus.FAILED, None, 0.05, id="an error: the policy"),
        pytest.param(RetryLater(7), InboxStatus.FAILED, None, 7, id="RetryLater: its own wait"),
        pytest.param(Permanent("x.slow"), InboxStatus.DEAD, "x.slow", None, id="Permanent: the end"),
        pytest.param(
            BusError(Code.NOT_FOUND, ""), InboxStatus.FAILED, None, 0.05, id="a code of ours does not steer"
        ),
    ],
)
async def test_what_a_handler_raises_when_it_is_cut_off_steers_its_end(
    autojump_clock: MockClock,
    raised: Exception,
    status: InboxStatus,
    own_code: str | None,
    wait_s: float | None,
) -> None:
    topology = Topology()

    @topology.on("chat.message", timeout_s=1, retry=ONCE_MORE)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if ctx.failures == 0:
            try:
                await trio.sleep_forever()
            finally:
                raise raised

    async with Harness(topology) as bot:
        await bot.say("fake:a", "hi")
        await bot.settle(until_s=1.02)

        (stored,) = bot.runtime.messages.list(key="fake:a")
        (failure,) = stored.record.errors
        assert (stored.record.status, failure.code, failure.own_code) == (status, "HANDLER_TIMEOUT", own_code)
        assert type(raised).__name__ in failure.text
        assert stored.record.wait_us == (None if wait_s is None else round(wait_s * 1e6))
