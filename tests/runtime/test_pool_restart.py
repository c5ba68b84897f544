"""A pool of turns or of sends crashes under load: its shards hear of every job, and nothing is lost or sent twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from shardline import Runtime
from shardline.actors.errors import Code
from shardline.adapters.base import ChannelCaps, NotSent, Outbound, SendOutcome, Sent
from shardline.runtime.send import Send
from shardline.runtime.turn import Turn
from shardline.storage.memory import open_memory
from shardline.testing import FakeChannel
from tests.kits.bots import check_all_done, check_counted, counting_bot, until_quiet


class Slowly(FakeChannel):
    """Takes its time for each send, before it counts and after; can be asked what it sent."""

    async def send(self, out: Outbound) -> SendOutcome:
        await trio.sleep(0.01)
        outcome = await super().send(out)
        await trio.sleep(0.01)
        return outcome

    async def reconcile(self, out: Outbound) -> Sent | NotSent | None:
        await trio.lowlevel.checkpoint()
        self.lookups.append(out)
        if any(sent.idempotency_key == out.idempotency_key for sent in self.delivered):
            return Sent(None)
        return NotSent(Code.NOT_FOUND, Code.NOT_FOUND.permanence)


@pytest.mark.parametrize("owner", [Turn, Send])
@pytest.mark.parametrize("crashes", [1, 3])
async def test_a_pool_that_crashes_under_load_loses_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, owner: type[Turn | Send], crashes: int
) -> None:
    """A worker fails after a job has told its shard how it ended: the jobs beside it are cut off."""
    ended: Callable[..., None] = vars(owner)["ended"]
    calls = 0

    def ended_and_failed(self: object, *args: object, **kwargs: object) -> None:
        nonlocal calls
        calls += 1
        ended(self, *args, **kwargs)
        if calls in [40 * n for n in range(1, crashes + 1)]:
            raise ZeroDivisionError("injected")

    monkeypatch.setattr(owner, "ended", ended_and_failed)
    channel = Slowly("fake", ChannelCaps(reconciles=True))
    said = {f"c{n}": [f"text {i}" for i in range(10)] for n in range(20)}
    async with Runtime.open(
        counting_bot(work_s=0.01), store=open_memory(shard_count=4), adapters=[channel]
    ) as runtime:
        for number in range(10):
            for address in said:
                await channel.say(address, f"text {number}")
        await until_quiet(runtime, 300)

        assert calls > 40 * crashes
        check_counted(said, channel)
        check_all_done(runtime)
        assert bool(channel.lookups) is (owner is Send)
