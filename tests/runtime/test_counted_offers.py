"""What waits in a conversation is counted before each message is offered, also before one that no bound holds up."""

from __future__ import annotations

from typing import cast

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.runtime.inbox import Inbox
from shardline.storage.commands import Duplicate, Outcome, Part, Publish, Stored
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.port import Settle, Store
from shardline.storage.records import InboxStatus
from tests.kits.bots import neighbour_of, new_message, until_quiet

LIMIT = 3
SHARDS = 4
FULL = "crowd:full"
OTHER = neighbour_of(FULL, SHARDS)


@attrs.define
class Halting:
    """Keeps publishes, or the word of them, back while it is told to."""

    _store: Store
    keeps_parts: bool = False
    keeps_words: bool = False
    parts: list[tuple[Part, Settle]] = attrs.field(factory=list[tuple[Part, Settle]])
    words: list[tuple[Settle, Outcome]] = attrs.field(factory=list[tuple[Settle, Outcome]])

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def submit(self, part: Part, settle: Settle) -> None:
        if not isinstance(part, Publish):
            self._store.submit(part, settle)
        elif self.keeps_parts:
            self.parts.append((part, settle))
        else:
            self._store.submit(part, lambda outcome: self._word(settle, outcome))

    def _word(self, settle: Settle, outcome: Outcome) -> None:
        if self.keeps_words:
            self.words.append((settle, outcome))
        else:
            settle(outcome)

    def store(self) -> None:
        """Store what is kept; the word of it is kept from here on."""
        self.keeps_parts, self.keeps_words = False, True
        parts, self.parts = self.parts, []
        for part, settle in parts:
            self.submit(part, settle)

    def tell(self) -> None:
        self.keeps_words = False
        words, self.words = self.words, []
        for settle, outcome in words:
            settle(outcome)


async def test_a_decision_of_another_process_takes_no_place_for_good(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its message is stored, and the word of it is still to come, when the next one of its conversation is offered."""
    topology, go, other_ends = Topology(), trio.Event(), trio.Event()

    @topology.on("chat.message", timeout_s=float("inf"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        await (go if message.conversation_key == FULL else other_ends).wait()

    real = Inbox.accept

    async def accept(
        inbox: Inbox, message: BusMessage, *, dedupe_key: str, **_: object
    ) -> Stored | Duplicate:
        is_decided = message.payload.text == "decided"
        return await real(inbox, message, dedupe_key=dedupe_key, takes_token=not is_decided, timeout_s=None)

    monkeypatch.setattr(Inbox, "accept", accept)
    database, told = MemoryDatabase(), dict[str, str]()
    async with Runtime.open(topology, store=open_memory(shard_count=SHARDS, database=database)) as runtime:
        await runtime.publish(new_message("other", key=OTHER))
    store = Halting(open_memory(shard_count=SHARDS, database=database))

    async def publish(text: str, key: str = FULL) -> None:
        try:
            await runtime.publish(new_message(text, key=key))
            told[text] = "accepted"
        except BusError as error:
            told[text] = str(error.code)

    with trio.fail_after(600):
        async with (
            Runtime.open(
                topology, store=cast("Store", store), max_lane_backlog=LIMIT, max_inflight=SHARDS
            ) as runtime,
            trio.open_nursery() as nursery,
        ):
            # One that was found on disk fills the window: what there is of others is still to be looked for.
            await runtime.wait_until(lambda: runtime.status().running_turns == 1)
            store.keeps_parts = True
            nursery.start_soon(publish, "decided")
            await wait_all_tasks_blocked()
            other_ends.set()
            await trio.sleep(60)
            store.store()
            await wait_all_tasks_blocked()
            nursery.start_soon(publish, "first")
            await wait_all_tasks_blocked()
            store.tell()
            await runtime.wait_until(lambda: "first" in told)
            await runtime.wait_until(lambda: runtime.status().running_turns == 1)
            for text in ("second", "third", "one too many"):
                await publish(text)
            assert [told[text] for text in ("decided", "first", "second", "third")] == ["accepted"] * 4
            assert told["one too many"] == Code.QUEUE_FULL
            go.set()
            await until_quiet(runtime)
            assert runtime.status().inbox[InboxStatus.DONE] == LIMIT + 2
