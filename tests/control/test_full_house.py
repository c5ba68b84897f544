"""Decisions over a bot that has its hands full: that is when people need them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import attrs
import trio

from shardline import BusMessage, Context, Runtime, Topology
from shardline.runtime.control.verbs import PublishMessage, Requeue, RowRef
from shardline.testing import FakeChannel
from tests.kits.controlled import decide, make_dead
from tests.kits.words import make_message


async def test_a_publish_from_outside_takes_no_token_and_holds_no_other_decision_up(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    await trio.to_thread.run_sync(make_dead, path, 1)
    topology = Topology()
    begun, may_end = trio.Event(), trio.Event()

    @topology.on("chat.message", timeout_s=60)
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text == "long":
            begun.set()
            await may_end.wait()

    channel = FakeChannel()
    message = attrs.evolve(
        make_message(), channel="fake", conversation_key="fake:other", participant_key=None
    )
    async with Runtime.open(topology, store=path, adapters=[channel], max_inflight=1) as runtime:
        with trio.fail_after(30):
            await channel.say("busy", "long")
            await begun.wait()
            published = await trio.to_thread.run_sync(
                partial(decide, path, PublishMessage(message), timeout_s=2)
            )
            requeued = await trio.to_thread.run_sync(
                partial(decide, path, Requeue((RowRef("in", 1),)), timeout_s=2)
            )
            may_end.set()
            await runtime.wait_until(lambda: runtime.is_quiet)

    assert (published.status, requeued.status) == ("done", "done")
