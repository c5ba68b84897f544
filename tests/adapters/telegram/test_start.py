"""Sends that wait at a start until it is known whose store it is, where that start comes to nothing."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from shardline import Runtime
from shardline.actors.errors import BusError
from shardline.adapters.base import NotSent, Outbound, SendOutcome
from shardline.adapters.kit.edge import FakeEdge
from shardline.adapters.telegram.sim.script import Fault, Script
from shardline.storage.memory import MemoryDatabase
from shardline.storage.records import OutboxState
from tests.adapters.telegram.platform import TelegramPlatform, echo_bot, open_platform
from tests.adapters.telegram.test_bot import LIMIT_S, quiet, store

CHATS = (5, 6, 7)
REFUSED = Fault(method="sendMessage", kind="refuse", times=-1, code=401, description="Unauthorized")


async def left_unsent() -> MemoryDatabase:
    """A store in which answers wait, for the channel was stopped."""
    database = MemoryDatabase()
    async with open_platform(Script(faults=[REFUSED])) as platform:
        for chat in CHATS:
            platform.bot.say(chat, "hi")
        async with Runtime.open(echo_bot(), store=store(database), adapters=[platform.adapter()]) as runtime:
            with trio.fail_after(LIMIT_S):
                await runtime.wait_until(lambda: len(runtime.outbox.list()) == 3 and runtime.is_quiet)
            assert {row.record.state for row in runtime.outbox.list()} == {OutboxState.READY}
    return database


async def check_all_is_sent(platform: TelegramPlatform, database: MemoryDatabase) -> None:
    adapter = platform.adapter(adopt_account=True)
    async with Runtime.open(echo_bot(), store=store(database), adapters=[adapter]) as runtime:
        assert OutboxState.UNCERTAIN not in {row.record.state for row in runtime.outbox.list()}
        await quiet(runtime, lambda: len(platform.bot.sent()) == len(CHATS))
        assert {row.record.state for row in runtime.outbox.list()} == {OutboxState.SENT}
    assert sorted(call.chat or 0 for call in platform.bot.sent()) == list(CHATS)


@pytest.mark.parametrize("why", ["another bot's store", "no such token", "a web hook is set"])
async def test_a_start_that_is_refused_leaves_what_waits_as_it_was(why: str) -> None:
    """Nothing has left, so nothing is uncertain: the next start sends all of it."""
    database = await left_unsent()
    async with open_platform(Script(me={"id": 77, "is_bot": True})) as platform:
        bot = platform.bot
        adopts = why != "another bot's store"
        if why == "no such token":
            bot.add_fault(Fault(method="getMe", kind="refuse", code=401))
        if why == "a web hook is set":
            bot.webhook_url = "https://bot.example/telegram"
        with pytest.raises(BusError):
            adapter = platform.adapter(adopt_account=adopts)
            async with Runtime.open(echo_bot(), store=store(database), adapters=[adapter]):
                pass
        assert bot.sent() == []
        bot.webhook_url = ""
        await check_all_is_sent(platform, database)


async def test_a_start_that_is_cut_off_leaves_what_waits_as_it_was() -> None:
    """The server does not tell who the bot is, and whoever started it has waited long enough."""
    database = await left_unsent()
    async with open_platform() as platform, trio.open_nursery() as nursery:
        bot = platform.bot
        bot.add_fault(Fault(method="getMe", kind="hang"))
        scope = trio.CancelScope()
        over = trio.Event()

        async def start() -> None:
            adapter = platform.adapter()
            with scope:
                async with Runtime.open(echo_bot(), store=store(database), adapters=[adapter]):
                    raise AssertionError("it cannot have started")
            over.set()

        nursery.start_soon(start)
        with trio.fail_after(LIMIT_S):
            while not bot.calls:
                await bot.wait_called()
            await trio.testing.wait_all_tasks_blocked(0.05)
            scope.cancel()
            await over.wait()
        assert bot.sent() == []
        await check_all_is_sent(platform, database)


def an_answer() -> Outbound:
    return Outbound(
        id=1,
        channel="telegram",
        conversation_key="tg:5",
        address="5",
        text="late",
        idempotency_key="k",
        part=0,
        claim=1,
        attempt=1,
    )


async def test_a_send_that_begins_behind_a_refused_start_is_told_at_once() -> None:
    """Between that and the end of the runtime lies a moment; what began to wait in it was cut off, and uncertain."""
    async with open_platform() as platform:
        platform.bot.add_fault(Fault(method="getMe", kind="refuse", code=401))
        adapter = platform.adapter(start_wait_s=100 * LIMIT_S)
        with pytest.raises(BusError):
            await adapter.run(FakeEdge(channel="telegram", prefix="tg"))
        with trio.fail_after(LIMIT_S):
            answer = await adapter.send(an_answer())
        assert isinstance(answer, NotSent)
        assert platform.bot.sent() == []


async def test_a_send_that_waits_for_the_start_is_told_also_where_all_is_cut_off_at_once() -> None:
    answers: list[SendOutcome] = []

    async def send() -> None:
        answers.append(await adapter.send(an_answer()))

    async with open_platform() as platform:
        platform.bot.add_fault(Fault(method="getMe", kind="hang"))
        adapter = platform.adapter()
        with trio.fail_after(LIMIT_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send)
                nursery.start_soon(adapter.run, FakeEdge(channel="telegram", prefix="tg"))
                while not platform.bot.calls:
                    await platform.bot.wait_called()
                nursery.cancel_scope.cancel()
        assert [type(answer) for answer in answers] == [NotSent]
        assert platform.bot.sent() == []
