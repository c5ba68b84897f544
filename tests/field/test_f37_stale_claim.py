"""A run that lost its claim: whatever it still does changes nothing and is refused by its code."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.runtime.inbox_rules import Done, inbox_move
from shardline.runtime.shard_inbox import ShardInbox
from shardline.storage.commands import Commit
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.records import InboxStatus
from shardline.testing import FakeChannel
from tests.kits.bots import texts_to, until_quiet
from tests.kits.crashes import Injected


async def test_completing_the_first_claim_after_a_recovery_changes_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claim 1, the shard restarts, claim 2."""
    topology = Topology()
    runs: list[Context] = []
    began = trio.Event(), trio.Event()
    go_on = trio.Event()

    @topology.on("chat.message", timeout_s=10_000)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "slow":
            began[len(runs)].set()
            runs.append(ctx)
            await go_on.wait()
        ctx.reply(f"{message.payload.text} {ctx.claim}")

    def crash(*_: object) -> None:
        monkeypatch.undo()
        raise Injected

    database, channel = MemoryDatabase(), FakeChannel()
    store = open_memory(database=database, shard_count=1)
    async with Runtime.open(topology, store=store, adapters=[channel]) as runtime:
        await channel.say("a", "slow")
        await began[0].wait()
        first = runtime.messages.list()[0].record
        monkeypatch.setattr(ShardInbox, "accepted", crash)
        await channel.say("b", "crash")
        await began[1].wait()
        before = runtime.messages.list(key="fake:a")[0].record
        assert (first.claim, before.claim, before.status) == (1, 2, InboxStatus.RUNNING)
        assert (before.crashes, before.failures) == (0, 0)

        # The turn itself.
        with pytest.raises(BusError) as replied:
            runs[0].reply("late")
        with pytest.raises(BusError) as published:
            runs[0].publish("chat.message", "late")
        assert {replied.value.code, published.value.code} == {Code.STALE_CLAIM}
        # The rules, and the store: under the lease of the first run and under that of the second.
        with pytest.raises(BusError) as refused:
            inbox_move(before, Done(), now_us=1, claim=first.claim)
        assert refused.value.code is Code.STALE_CLAIM
        late_done = inbox_move(first, Done(), now_us=1, claim=first.claim)
        for epoch, code in ((store.epochs[0], Code.FENCED), (store.epochs[0] + 1, Code.STALE_CLAIM)):
            with pytest.raises(BusError) as stale:
                await store.commit(Commit(shard=0, epoch=epoch, at_us=1, inbox=(late_done,)))
            assert stale.value.code is code
        assert runtime.messages.list(key="fake:a")[0].record == before

        go_on.set()
        await until_quiet(runtime)
        assert texts_to("a", channel) == ["slow 2"]
        assert texts_to("b", channel) == ["crash 2"]
