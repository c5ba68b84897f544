"""Actors that crash under load: they start again, nothing is lost, nothing happens twice, no crash is counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from shardline import BusMessage, Context, Runtime, Topology
from shardline.adapters.base import Outbound, SendOutcome
from shardline.runtime.shard_inbox import ShardInbox
from shardline.runtime.shard_messages import SendEnded, TurnEnded
from shardline.runtime.shard_outbox import ShardOutbox
from shardline.storage.memory import open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel

CONVERSATIONS = 20
EACH = 10


class Slowly(FakeChannel):
    """Takes its time for each send."""

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.sleep(0.01)
        return await super().send(out)


def counting() -> Topology:
    topology = Topology()

    @topology.on("chat.message")
    async def answer(ctx: Context, message: BusMessage) -> None:
        turns = ctx.state.get("turns", 0)
        assert isinstance(turns, int)
        ctx.state["turns"] = turns + 1
        await trio.sleep(0.005)
        ctx.reply(f"{turns + 1}: {message.payload.text}")

    return topology


def crash_once(
    monkeypatch: pytest.MonkeyPatch, owner: type, method: str, *, at_call: int, after: bool
) -> None:
    """Let a method fail once, before or after it has done its work."""
    real: Callable[..., object] = getattr(owner, method)
    calls = 0

    def failing(*args: object, **kwargs: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at_call and not after:
            raise ZeroDivisionError("injected")
        result = real(*args, **kwargs)
        if calls == at_call:
            raise ZeroDivisionError("injected")
        return result

    monkeypatch.setattr(owner, method, failing)


CRASHES = [
    pytest.param(ShardInbox, "turn_ended", False, id="a turn that ended is not recorded"),
    pytest.param(ShardInbox, "turn_ended", True, id="its commit is under way"),
    pytest.param(ShardInbox, "accepted", False, id="an accept that settled"),
    pytest.param(ShardInbox, "claimed", False, id="claims on disk that did not start"),
    pytest.param(ShardOutbox, "send_ended", False, id="a send that ended is not recorded"),
    pytest.param(ShardOutbox, "send_ended", True, id="its commit is under way too"),
    pytest.param(ShardOutbox, "placed", False, id="starts on disk that were not begun"),
]


@pytest.mark.parametrize(("owner", "method", "after"), CRASHES)
async def test_a_shard_that_crashes_under_load_loses_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, after: bool
) -> None:
    crash_once(monkeypatch, owner, method, at_call=5 if method == "claimed" else 60, after=after)
    channel = Slowly("fake")
    async with Runtime.open(counting(), store=open_memory(shard_count=4), adapters=[channel]) as runtime:
        for number in range(EACH):
            for conversation in range(CONVERSATIONS):
                await channel.say(str(conversation), str(number))
        with trio.fail_after(120):
            await runtime.wait_until(lambda: runtime.is_quiet)

        for conversation in range(CONVERSATIONS):
            texts = [out.text for out in channel.delivered if out.address == str(conversation)]
            assert texts == [f"{n + 1}: {n}" for n in range(EACH)]
        rows = runtime.messages.list(limit=1000)
        assert {row.record.status for row in rows} == {InboxStatus.DONE}
        assert {(row.record.crashes, row.record.failures) for row in rows} == {(0, 0)}
        assert runtime.status().tokens_free == 1024


def test_the_injected_points_exist() -> None:
    assert TurnEnded.__name__ == "TurnEnded"
    assert SendEnded.__name__ == "SendEnded"
