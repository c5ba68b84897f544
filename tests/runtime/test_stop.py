"""Stopping in good order: what is under way ends or goes back, and nothing is counted as a crash."""

from __future__ import annotations

import signal
from functools import partial
from typing import Literal

import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.adapters.base import Outbound, SendOutcome
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxStatus, OutboxState
from shardline.testing import FakeChannel
from tests.kits.bots import new_message
from tests.kits.words import make_message, with_text


def slow_bot(seconds: float, started: list[str], *, replies: bool = True) -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        started.append(message.payload.text)
        await trio.sleep(seconds)
        if replies:
            ctx.reply(message.payload.text)

    return topology


async def test_turns_under_way_end_inside_the_grace_time(autojump_clock: MockClock) -> None:
    """Field entry 35: five handlers of 3 s, grace 5 s."""
    database, channel, started = MemoryDatabase(), FakeChannel("fake"), list[str]()
    async with Runtime.open(
        slow_bot(3, started), store=open_memory(database=database), adapters=[channel], grace_s=5
    ) as runtime:
        for number in range(5):
            await channel.say(str(number), f"first {number}")
            await channel.say(str(number), f"second {number}")
        await trio.testing.wait_all_tasks_blocked()

    assert not runtime.has_cancelled_work
    assert sorted(started) == [f"first {n}" for n in range(5)]
    async with Runtime.open(
        slow_bot(0, started), store=open_memory(database=database), adapters=[channel]
    ) as again:
        assert again.info.clean
        await again.wait_until(lambda: again.is_quiet)
        for number in range(5):
            texts = [out.text for out in channel.delivered if out.address == str(number)]
            assert texts == [f"first {number}", f"second {number}"]


@pytest.mark.parametrize("seconds", [0, 3])
async def test_without_grace_time_only_a_stop_that_cuts_something_off_says_so(
    seconds: float, autojump_clock: MockClock
) -> None:
    channel = FakeChannel("fake")
    async with Runtime.open(
        slow_bot(seconds, []), store=open_memory(), adapters=[channel], grace_s=0
    ) as runtime:
        await channel.say("1", "hi")
        await trio.testing.wait_all_tasks_blocked()
        assert runtime.is_quiet == (seconds == 0)
    assert runtime.has_cancelled_work == (seconds > 0)


async def test_after_the_grace_time_turns_are_cancelled_and_their_messages_go_back(
    autojump_clock: MockClock,
) -> None:
    database, channel, started = MemoryDatabase(), FakeChannel("fake"), list[str]()
    async with Runtime.open(
        slow_bot(3, started), store=open_memory(database=database), adapters=[channel], grace_s=1
    ) as runtime:
        for number in range(5):
            await channel.say(str(number), "hi")
        await trio.testing.wait_all_tasks_blocked()

    assert runtime.has_cancelled_work
    async with Runtime.open(
        slow_bot(0, started), store=open_memory(database=database), adapters=[channel]
    ) as again:
        rows = again.messages.list()
        assert {(row.record.crashes, row.record.failures, row.record.blames) for row in rows} == {(0, 0, 0)}
        await again.wait_until(lambda: again.is_quiet)
        assert len(channel.delivered) == 5
        assert {row.record.claim for row in again.messages.list()} == {2}


@pytest.mark.parametrize("verb", ["send", "handled", "publish"])
async def test_a_turn_that_the_stop_refuses_something_goes_back(
    verb: Literal["send", "handled", "publish"], autojump_clock: MockClock
) -> None:
    """BUS_CLOSED is permanent for a program; a message of the runtime that stops does not die of it."""
    database, channel, runtimes = MemoryDatabase(), Stuck("fake"), list[Runtime]()
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "long":
            await trio.sleep_forever()
        for runtime in runtimes:
            if verb == "send":
                await runtime.sender.send("fake", "fake:b", "hi", "k")
            elif verb == "handled":
                await runtime.publish(new_message("long", key="fake:b"), wait="handled")
            else:
                await trio.sleep(2)
                await runtime.publish(new_message("late", key="fake:b"))
        ctx.reply("done")

    async with Runtime.open(
        topology, store=open_memory(database=database), adapters=[channel], grace_s=5
    ) as runtime:
        runtimes.append(runtime)
        await channel.say("a", "hi")
        await trio.sleep(1)

    assert runtime.has_cancelled_work
    runtimes.clear()
    heard = FakeChannel("fake")
    async with Runtime.open(
        topology, store=open_memory(database=database), adapters=[heard], grace_s=0
    ) as again:
        await again.wait_until(lambda: bool(heard.delivered))
        assert [out.text for out in heard.delivered] == ["done"]
        [row] = [row.record for row in again.messages.list() if row.record.conversation_key == "fake:a"]
        assert (row.status, row.claim, row.failures, row.crashes) == (InboxStatus.DONE, 2, 0, 0)


async def test_a_second_stop_request_does_not_wait(autojump_clock: MockClock) -> None:
    channel, started = FakeChannel("fake"), list[str]()
    begin = trio.current_time()
    async with Runtime.open(
        slow_bot(20, started), store=open_memory(), adapters=[channel], grace_s=15
    ) as runtime:
        await channel.say("a", "hi")
        await trio.testing.wait_all_tasks_blocked()
        runtime.request_stop()
        runtime.request_stop()
        await runtime.serve()

    assert trio.current_time() - begin < 1
    assert runtime.has_cancelled_work


class Stuck(FakeChannel):
    """A channel whose sends never end by themselves."""

    async def send(self, out: Outbound) -> SendOutcome:
        self.attempts.append(out)
        await trio.sleep(25)
        return await super().send(out)


async def test_a_send_cut_off_is_uncertain_and_the_next_one_waits_on_disk(autojump_clock: MockClock) -> None:
    database, channel, started = MemoryDatabase(), Stuck("fake"), list[str]()
    async with Runtime.open(
        slow_bot(0, started), store=open_memory(database=database), adapters=[channel], grace_s=2
    ) as runtime:
        await channel.say("a", "one")
        await channel.say("a", "two")
        await trio.testing.wait_all_tasks_blocked()
    assert runtime.has_cancelled_work

    healthy = FakeChannel("fake")
    async with Runtime.open(
        slow_bot(0, started), store=open_memory(database=database), adapters=[healthy]
    ) as again:
        await again.wait_until(lambda: again.is_quiet)
        states = [row.record.state for row in sorted(again.outbox.list(), key=lambda row: row.record.seq)]
        assert states == [OutboxState.UNCERTAIN, OutboxState.SENT]
        assert [out.text for out in healthy.delivered] == ["two"]


async def test_an_error_in_the_block_comes_out_as_it_is_and_the_stop_is_clean(
    autojump_clock: MockClock,
) -> None:
    database, channel, started = MemoryDatabase(), FakeChannel("fake"), list[str]()
    with pytest.raises(ZeroDivisionError):
        async with Runtime.open(
            slow_bot(1, started), store=open_memory(database=database), adapters=[channel]
        ):
            await channel.say("a", "hi")
            raise ZeroDivisionError
    async with Runtime.open(
        slow_bot(1, started), store=open_memory(database=database), adapters=[channel]
    ) as again:
        assert again.info.clean
        assert again.status().inbox[InboxStatus.DONE] == 1


async def test_a_cancelled_block_stops_in_good_order(autojump_clock: MockClock) -> None:
    database, channel, started = MemoryDatabase(), FakeChannel("fake"), list[str]()
    with trio.move_on_after(0.5):
        async with Runtime.open(
            slow_bot(1, started), store=open_memory(database=database), adapters=[channel]
        ) as runtime:
            await channel.say("a", "hi")
            await runtime.serve()
    async with Runtime.open(
        slow_bot(1, started), store=open_memory(database=database), adapters=[channel]
    ) as again:
        assert again.info.clean
        assert again.status().inbox[InboxStatus.DONE] == 1
        assert again.status().outbox[OutboxState.SENT] == 1
        assert started == ["hi"]


async def test_publishing_into_a_stop_is_refused(autojump_clock: MockClock) -> None:
    channel, started = FakeChannel("fake"), list[str]()
    async with trio.open_nursery() as nursery:
        async with Runtime.open(slow_bot(3, started), store=open_memory(), adapters=[channel]) as runtime:

            async def late() -> None:
                await trio.sleep(1)
                with pytest.raises(BusError) as refused:
                    await runtime.publish(with_text(make_message(), "too late"))
                assert refused.value.code is Code.BUS_CLOSED

            nursery.start_soon(late)
            await channel.say("a", "hi")
            await trio.testing.wait_all_tasks_blocked()

    assert started == ["hi"]


async def test_a_signal_ends_a_serve_that_takes_signals() -> None:
    """The runtime of an own program, without `run`."""
    channel, started = FakeChannel("fake"), list[str]()
    with trio.fail_after(10):
        async with Runtime.open(slow_bot(0, started), store=open_memory(), adapters=[channel]) as runtime:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(runtime.serve, signals=True))
                await channel.say("a", "hi")
                await runtime.wait_until(lambda: runtime.is_quiet)
                signal.raise_signal(signal.SIGTERM)
            await runtime.serve(signals=True)

    assert not runtime.has_cancelled_work
    assert [out.text for out in channel.delivered] == ["hi"]
