"""A decision made while its shard crashes or starts anew is carried out once, or refused; never lost in silence."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from trio.testing import MockClock

from shardline import BusMessage, Context, Permanence, Permanent, Topology
from shardline.actors.errors import BusError, Code
from shardline.adapters.base import NotSent, Uncertain
from shardline.runtime import shard_ask
from shardline.runtime.shard_desk import ShardDesk
from shardline.runtime.shard_messages import MoveSend, Requeue
from shardline.storage.records import OutboxState
from shardline.testing import Harness


class Injected(Exception):
    """A crash of our own."""


def fails_once_bot() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        if ctx.generation == 0:
            raise Permanent("x.not_yet")
        ctx.reply(message.payload.text)

    return topology


def echo_bot() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        ctx.reply(message.payload.text)

    return topology


def crash(monkeypatch: pytest.MonkeyPatch, method: str, times: int, *, behind: bool) -> None:
    """Let the desk of a shard crash at its next decisions: before one of them, or `behind` it."""
    real: Callable[[ShardDesk, Requeue | MoveSend], None] = getattr(ShardDesk, method)
    left = times

    def crashing(self: ShardDesk, message: Requeue | MoveSend) -> None:
        nonlocal left
        if behind or not left:
            real(self, message)
        if left:
            left -= 1
            raise Injected

    monkeypatch.setattr(ShardDesk, method, crashing)


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
async def test_dead_letters_are_all_requeued_though_their_shard_crashes(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, behind: bool
) -> None:
    async with Harness(fails_once_bot()) as harness:
        for number in range(5):
            await harness.say("fake:1", f"text {number}")
        await harness.settle()
        assert len(harness.dead()) == 5
        crash(monkeypatch, "requeue", 1, behind=behind)

        assert await harness.runtime.dead_letters.requeue_where() == 5
        await harness.settle()

        assert harness.dead() == []
        assert sorted(harness.sent("fake:1")) == [f"text {number}" for number in range(5)]


async def test_a_decision_that_crashes_its_shard_each_time_is_refused_and_the_runtime_lives(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with Harness(fails_once_bot()) as harness:
        await harness.say("fake:1", "text")
        await harness.settle()
        (letter,) = harness.dead()
        crash(monkeypatch, "requeue", 2, behind=False)

        with pytest.raises(BusError) as caught:
            await harness.runtime.dead_letters.requeue(letter.record.id)

        assert caught.value.code is Code.BUS_CLOSED
        assert isinstance(caught.value.__cause__, Injected)
        assert [one.record.id for one in harness.dead()] == [letter.record.id]
        await harness.runtime.dead_letters.requeue(letter.record.id)
        await harness.settle()
        assert harness.sent("fake:1") == ["text"]


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
async def test_an_uncertain_send_is_decided_though_its_shard_crashes(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, behind: bool
) -> None:
    async with Harness(echo_bot()) as harness:
        harness.channel("fake").script(Uncertain("cut off"))
        await harness.say("fake:1", "text")
        await harness.settle()
        outbox = harness.runtime.outbox
        (row,) = outbox.list(state=OutboxState.UNCERTAIN)
        crash(monkeypatch, "move_send", 1, behind=behind)

        await outbox.resolve(row.record.id, "sent")
        await harness.settle()

        assert [one.record.id for one in outbox.list(state=OutboxState.SENT)] == [row.record.id]
        with pytest.raises(BusError) as caught:
            await outbox.resolve(row.record.id, "sent")
        assert caught.value.code is Code.INVALID_TRANSITION


async def test_a_letter_that_is_dead_again_before_its_decision_is_asked_again_runs_once_more_and_no_more(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """The decision was on disk when its shard crashed; the row's generation says so."""
    topology = Topology()
    turns: list[int] = []

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        turns.append(ctx.generation)
        raise Permanent("x.never")

    async with Harness(topology) as harness:
        await harness.say("fake:1", "text")
        await harness.settle()
        (letter,) = harness.dead()
        crash(monkeypatch, "requeue", 1, behind=True)
        monkeypatch.setattr(shard_ask, "_PAUSE_S", 5.0)

        await harness.runtime.dead_letters.requeue(letter.record.id)
        await harness.settle()

        assert turns == [0, 1]
        assert [one.record.generation for one in harness.dead()] == [1]


async def test_a_send_that_is_dead_again_before_its_decision_is_asked_again_goes_out_once_more_and_no_more(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with Harness(echo_bot()) as harness:
        channel = harness.channel("fake")
        channel.script(*(NotSent(Code.CONTENT_REFUSED, Permanence.PERMANENT) for _ in range(3)))
        await harness.say("fake:1", "text")
        await harness.settle()
        (send,) = harness.outbox("fake:1")
        crash(monkeypatch, "move_send", 1, behind=True)
        monkeypatch.setattr(shard_ask, "_PAUSE_S", 5.0)

        await harness.runtime.outbox.requeue(send.id)
        await harness.settle()

        assert len(channel.attempts) == 2
        assert [(row.state, row.generation) for row in harness.outbox("fake:1")] == [(OutboxState.DEAD, 1)]


async def test_an_uncertain_send_sent_again_is_not_sent_again_for_being_uncertain_again(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async with Harness(echo_bot()) as harness:
        channel = harness.channel("fake")
        channel.script(*(Uncertain("no answer") for _ in range(3)))
        await harness.say("fake:1", "text")
        await harness.settle()
        (send,) = harness.outbox("fake:1")
        crash(monkeypatch, "move_send", 1, behind=True)
        monkeypatch.setattr(shard_ask, "_PAUSE_S", 5.0)

        await harness.resolve(send, "resend")
        await harness.settle()

        assert len(channel.attempts) == 2
        assert [row.state for row in harness.outbox("fake:1")] == [OutboxState.UNCERTAIN]
