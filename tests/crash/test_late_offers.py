"""A message that is handed to the journal while its shard crashes counts in its conversation before it is settled."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import attrs
import pytest
import structlog.testing
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.runtime.shard_inbox import ShardInbox
from shardline.storage.commands import Part, Publish, Refused
from shardline.storage.port import Settle, Store
from shardline.storage.records import InboxStatus
from tests.kits.bots import neighbour_of, new_message, until_quiet
from tests.kits.crashes import SHARDS, Place, crash_in

LIMIT = 3
FULL = "crowd:full"
OTHER = neighbour_of(FULL, SHARDS)


@attrs.define
class SlowStore:
    """Keeps publishes back while it is told to."""

    _store: Store
    keeps: bool = False
    kept: list[tuple[Part, Settle]] = attrs.field(factory=list[tuple[Part, Settle]])

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def submit(self, part: Part, settle: Settle) -> None:
        if self.keeps and isinstance(part, Publish):
            self.kept.append((part, settle))
        else:
            self._store.submit(part, settle)

    def let_go(self, *, refuse: bool) -> None:
        self.keeps = False
        kept, self.kept = self.kept, []
        for part, settle in kept:
            if refuse:
                settle(Refused(BusError(Code.STORE_BUSY, "the store was busy for too long")))
            else:
                self._store.submit(part, settle)


@pytest.mark.parametrize("ends", ["stored", "refused"])
async def test_a_conversation_takes_no_more_than_its_bound_while_one_is_on_its_way(
    autojump_clock: MockClock, tmp_path: Path, ends: str
) -> None:
    topology, go, other_ends = Topology(), trio.Event(), trio.Event()

    @topology.on("chat.message", timeout_s=float("inf"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        await (go if message.conversation_key == FULL else other_ends).wait()

    store = SlowStore(Place("memory", tmp_path).open())
    told: dict[str, str] = {}

    async def publish(text: str, key: str = FULL) -> None:
        try:
            await runtime.publish(new_message(text, key=key))
            told[text] = "accepted"
        except BusError as error:
            told[text] = str(error.code)

    with structlog.testing.capture_logs(), trio.fail_after(600):
        async with (
            Runtime.open(
                topology, store=cast("Store", store), max_lane_backlog=LIMIT, max_inflight=8
            ) as runtime,
            trio.open_nursery() as nursery,
        ):
            await publish("other", OTHER)
            for text in ("at work", "waits", "waits too"):
                await publish(text)
            await runtime.wait_until(lambda: runtime.status().running_turns == 2)
            store.keeps = True
            nursery.start_soon(publish, "on its way")
            await wait_all_tasks_blocked()
            with crash_in(ShardInbox, "turn_ended", at=[1]) as failed:
                other_ends.set()
                await trio.sleep(60)
            assert failed
            nursery.start_soon(publish, "one too many")
            await wait_all_tasks_blocked()
            found = dict(told)
            store.let_go(refuse=ends == "refused")
            assert found.get("one too many") == Code.QUEUE_FULL
            await runtime.wait_until(lambda: "on its way" in told)
            assert told["on its way"] == ("accepted" if ends == "stored" else Code.STORE_BUSY)
            await publish("next")
            assert told["next"] == (Code.QUEUE_FULL if ends == "stored" else "accepted")
            go.set()
            await until_quiet(runtime)
            assert runtime.status().inbox[InboxStatus.DONE] == LIMIT + 2
            assert runtime.status().tokens_free == 8
