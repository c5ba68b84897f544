"""Cancelled at any checkpoint: a publish is stored whole or not at all, and a bot goes on where it was cut."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import apsw
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Direction, Event, Runtime, Topology
from shardline.actors.identifiers import new_uuid7
from shardline.storage.journal import Journal
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.sqlite import open_sqlite
from shardline.testing import FakeChannel
from tests.kits.bots import check_all_done, check_counted, counting_bot, new_message, until_quiet
from tests.kits.cuts import CancelAt, all_cuts, run_cut
from tests.kits.store_checks import check_store

Kind = Literal["inbound", "outbound", "event"]
OpenStore = Callable[[], Journal]


def in_memory() -> OpenStore:
    """One database, however often it is opened."""
    return partial(open_memory, database=MemoryDatabase())


def stored_events(path: Path) -> int:
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        ((count,),) = database.execute("SELECT count(*) FROM event").fetchall()
    finally:
        database.close()
    assert isinstance(count, int)
    return count


def what_to_publish(kind: Kind, key: str) -> BusMessage | Event:
    if kind == "event":
        return Event(id=new_uuid7(), ts_us=1, topic="log", key=key, payload={})
    return new_message("hi", key=key, direction=Direction(kind))


@pytest.mark.parametrize("kind", ["inbound", "outbound", "event"])
async def test_a_publish_cancelled_at_any_checkpoint_is_stored_exactly_if_it_has_a_receipt(
    autojump_clock: MockClock, tmp_path: Path, kind: Kind
) -> None:
    path = tmp_path / "bot.db"
    channel = FakeChannel("fake")
    store = open_sqlite(path, mode="inline", durability="normal")
    runs = receipts = 0
    async with Runtime.open(counting_bot(), store=store, adapters=[channel]) as runtime:
        for cut in all_cuts():
            key = f"fake:{cut.nth}"
            runs += 1
            ended = await run_cut(cut, partial(runtime.publish, what_to_publish(kind, key)))
            await until_quiet(runtime)
            receipts += ended

            if kind == "event":
                assert stored_events(path) == receipts
            else:
                stored = runtime.messages.list(key=key) + runtime.outbox.list(key=key)
                assert bool(stored) is ended
            check_all_done(runtime)
        # Only the call that was cancelled before it began stored nothing; there is no checkpoint before the hand-over.
        assert receipts == runs - 1 > 0
    check_store(path)


@pytest.mark.parametrize("timeout_s", [None, 5.0])
async def test_a_publish_cancelled_while_it_waits_for_a_token_takes_none(
    autojump_clock: MockClock, timeout_s: float | None
) -> None:
    channel = FakeChannel("fake")
    ends: list[bool] = []
    async with Runtime.open(
        counting_bot(work_s=1), store=open_memory(), adapters=[channel], max_inflight=1
    ) as runtime:
        for cut in all_cuts():
            key = f"fake:waits-{cut.nth}"
            await channel.say("busy", "hi")
            message = new_message("hi", key=key)
            ends.append(await run_cut(cut, partial(runtime.publish, message, timeout_s=timeout_s)))
            await until_quiet(runtime)

            assert bool(runtime.messages.list(key=key)) is ends[-1]
            check_all_done(runtime, max_inflight=1)
    # Before the call, and while it waits; after that it is handed over.
    assert ends[:3] == [False, False, True]
    assert all(ends[2:])


async def test_a_turn_cancelled_by_its_own_scope_publishes_all_or_nothing(autojump_clock: MockClock) -> None:
    """`runtime.publish` inside a handler, cut at each checkpoint: the turn goes on either way."""
    topology = Topology()
    channel = FakeChannel("fake")
    cuts: list[CancelAt] = []
    ends: list[bool] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "start":
            cut = CancelAt(len(cuts))
            cuts.append(cut)
            poke = new_message("poke", key=f"fake:other-{cut.nth}")
            ends.append(await run_cut(cut, lambda: runtime.publish(poke)))
        ctx.reply(message.payload.text)

    async with Runtime.open(topology, store=open_memory(), adapters=[channel], max_inflight=1) as runtime:
        while not cuts or cuts[-1].is_reached:
            await channel.say("a", "start")
            await until_quiet(runtime)

        check_all_done(runtime, max_inflight=1)
        poked = [f"other-{n}" for n, ended in enumerate(ends) if ended]
        assert sorted(out.address for out in channel.delivered if out.address != "a") == sorted(poked)
        assert len(ends) > len(poked) > 0


# --- a whole bot ---------------------------------------------------------------------------------------------

CONVERSATIONS = 4
EACH = 3


class Steady(FakeChannel):
    """Says the same things at each start; the platform gives up repeating what was acknowledged."""

    async def say_all(self) -> None:
        for number in range(EACH):
            for address in range(CONVERSATIONS):
                await self.say(str(address), f"text {number}", platform_message_id=f"{address}:{number}")


async def serve_bot(open_store: OpenStore, channel: Steady, *, work_s: float) -> None:
    """Run a bot as a program does: open, read, serve until it is quiet, stop."""
    async with Runtime.open(
        counting_bot(work_s), store=open_store(), adapters=[channel], grace_s=5
    ) as runtime:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.serve)
            await channel.say_all()
            await until_quiet(runtime)
            runtime.request_stop()


async def check_goes_on(open_store: OpenStore, *channels: Steady) -> None:
    """After a cut a new run ends everything: answered once, in order, and nothing was counted as a crash."""
    rest = Steady("fake")
    async with Runtime.open(counting_bot(), store=open_store(), adapters=[rest]) as runtime:
        assert runtime.info.clean
        await rest.say_all()
        await until_quiet(runtime)
        said = [f"text {number}" for number in range(EACH)]
        check_counted({str(address): said for address in range(CONVERSATIONS)}, *channels, rest)
        check_all_done(runtime)


async def test_serve_cancelled_at_any_checkpoint_stops_in_good_order(autojump_clock: MockClock) -> None:
    runs = 0
    for cut in all_cuts():
        runs += 1
        open_store, channel = in_memory(), Steady("fake")
        await run_cut(cut, partial(serve_bot, open_store, channel, work_s=0.1))
        await check_goes_on(open_store, channel)
    assert runs > EACH * CONVERSATIONS


@pytest.mark.parametrize("stride", [17, pytest.param(1, marks=pytest.mark.long)])
async def test_a_bot_cut_at_any_step_of_any_of_its_tasks_loses_nothing(
    autojump_clock: MockClock, stride: int
) -> None:
    """As above, while its turns, sends and commits are under way."""
    steps = 0
    for cut in all_cuts(first=1, stride=stride):
        steps = cut.nth
        open_store, channel = in_memory(), Steady("fake")
        await run_cut(cut, partial(serve_bot, open_store, channel, work_s=0.1), anywhere=True)
        await check_goes_on(open_store, channel)
    assert steps > 200


@pytest.mark.parametrize("stride", [23, pytest.param(3, marks=pytest.mark.long)])
async def test_a_bot_over_a_file_cut_at_any_step_of_any_of_its_tasks_loses_nothing(
    autojump_clock: MockClock, tmp_path: Path, stride: int
) -> None:
    steps = 0
    for cut in all_cuts(first=1, stride=stride):
        steps = cut.nth
        path, channel = tmp_path / f"{steps}.db", Steady("fake")
        open_store = partial(open_sqlite, path, mode="inline", durability="normal")
        await run_cut(cut, partial(serve_bot, open_store, channel, work_s=0.1), anywhere=True)
        await check_goes_on(open_store, channel)
        check_store(path)
    assert steps > 200


async def test_an_opening_cancelled_at_any_checkpoint_gives_its_file_back(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    path = tmp_path / "bot.db"

    async def open_and_close() -> None:
        async with Runtime.open(counting_bot(), store=path, mode="inline") as runtime:
            assert runtime.info.clean

    runs = 0
    for cut in all_cuts():
        runs += 1
        await run_cut(cut, open_and_close)
    assert runs > 3
    await open_and_close()


async def test_a_publish_that_waits_when_the_stop_begins_is_refused(autojump_clock: MockClock) -> None:
    """It waits for a token; none will come."""
    channel = FakeChannel("fake")
    refused: list[Code] = []

    async def publish_late() -> None:
        try:
            await runtime.publish(new_message("late", key="fake:late"))
        except BusError as error:
            refused.append(error.code)

    database = MemoryDatabase()
    async with trio.open_nursery() as nursery:
        async with Runtime.open(
            counting_bot(work_s=1), store=open_memory(database=database), adapters=[channel], max_inflight=1
        ) as runtime:
            await channel.say("a", "hi")
            nursery.start_soon(publish_late)
            await trio.testing.wait_all_tasks_blocked()

    assert refused == [Code.BUS_CLOSED]
    async with Runtime.open(
        counting_bot(), store=open_memory(database=database), adapters=[channel]
    ) as runtime:
        await until_quiet(runtime)
        assert [out.address for out in channel.delivered] == ["a"]
