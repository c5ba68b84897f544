"""Field entries 9 and 10: a stop while a page of updates is in hand; what the platform sends again is known."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from shardline import Runtime
from shardline.adapters.base import ChannelCaps, Edge, Inbound, SendOutcome, Sent
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxStatus
from tests.adapters.telegram.platform import echo_bot, open_platform
from tests.kits.bots import counting_bot, until_quiet

PAGE = 100


class Poller:
    """Reads one page of a hundred updates, keeps the offset with each, then confirms the page with another call.

    Args:
        cut_at: At which of its awaits between the response and the end of the page it is cancelled.
        confirms: Whether the confirming call reaches the platform.
    """

    name = prefix = "poll"
    caps = ChannelCaps()

    def __init__(self, cut_at: int | None, *, confirms: bool = True) -> None:
        self.steps = 0
        self.confirmed = 0
        self._cut_at = cut_at
        self._confirms = confirms

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        with trio.CancelScope() as scope:
            page = range(1, PAGE + 1)
            for number in page:
                await self.step(scope)
                await edge.accept(
                    Inbound(platform_message_id=str(number), address=str(number % 7), text=f"text {number}"),
                    facts={"offset": str(number)},
                )
                await self.step(scope)
            if not self._confirms:
                return
            await self.step(scope)
            self.confirmed = PAGE

    async def step(self, scope: trio.CancelScope) -> None:
        if self.steps == self._cut_at:
            scope.cancel()
        self.steps += 1
        await trio.lowlevel.checkpoint()

    async def send(self, out: object) -> SendOutcome:
        await trio.lowlevel.checkpoint()
        return Sent(None)


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.long)])
async def test_a_page_cut_at_any_await_is_there_once_after_the_next_start(
    autojump_clock: MockClock, every: int
) -> None:
    steps = 2 * PAGE + 1
    for cut_at in [*range(0, steps, every), steps - 1]:
        database, cut, whole = MemoryDatabase(), Poller(cut_at), Poller(None)
        for poller in (cut, whole):
            async with Runtime.open(
                counting_bot(), store=open_memory(database=database), adapters=[poller]
            ) as runtime:
                await runtime.wait_drained()
        assert cut.steps == cut_at + 1
        assert cut.confirmed == 0
        async with Runtime.open(
            counting_bot(), store=open_memory(database=database), adapters=[Poller(None)]
        ) as runtime:
            await until_quiet(runtime)
            texts = [row.message.payload.text for row in runtime.messages.list(limit=1_000)]
            assert sorted(texts) == sorted(f"text {number}" for number in range(1, PAGE + 1))
            assert runtime.status().inbox[InboxStatus.DONE] == PAGE


async def test_a_confirmation_that_failed_brings_no_second_run(autojump_clock: MockClock) -> None:
    """Entry 9: the last word to the platform is lost; the stored row decides, not the call."""
    database = MemoryDatabase()
    for confirms in (False, True):
        poller = Poller(None, confirms=confirms)
        async with Runtime.open(
            counting_bot(), store=open_memory(database=database), adapters=[poller]
        ) as runtime:
            await runtime.wait_drained()
            assert runtime.counters.get("handled", 0) == (PAGE if not confirms else 0)
            assert runtime.counters.get("duplicates", 0) == (0 if not confirms else PAGE)


@pytest.mark.parametrize("stored", [1, 50, 99])
async def test_f10_a_stop_in_the_midst_of_a_page_of_the_real_edge(stored: int) -> None:
    """The page is not confirmed, comes again as a whole, and each of its updates is answered once."""
    database = MemoryDatabase()
    async with open_platform() as platform:
        bot = platform.bot
        for number in range(PAGE):
            bot.say(number % 7 + 1, f"text {number}")
        for goal in (stored, PAGE):
            adapter, store = platform.adapter(), open_memory(database=database)
            with trio.fail_after(20):
                async with Runtime.open(echo_bot(), store=store, adapters=[adapter]) as runtime:
                    await runtime.wait_until(lambda: in_store(runtime) >= goal)  # noqa: B023 (run at once)
                    if goal == PAGE:
                        await runtime.wait_until(lambda: bot.waiting == 0 and runtime.is_quiet)
                        assert runtime.status().inbox[InboxStatus.DONE] == PAGE
        texts = sorted(call.text or "" for call in bot.sent())

    assert texts == sorted(f"text {number}" for number in range(PAGE))


def in_store(runtime: Runtime) -> int:
    return sum(runtime.status().inbox.values())
