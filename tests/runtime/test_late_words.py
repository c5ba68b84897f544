"""A shard that crashed is told of what was offered to the run before: nothing is counted, freed or handled twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from shardline import BusError, BusMessage, Code, Context, Runtime, Topology
from shardline.runtime import shard as shard_module
from shardline.runtime.shard import ShardActor
from shardline.runtime.shard_inbox import ShardInbox
from shardline.runtime.shard_messages import Accepted
from shardline.storage.commands import Commit, Committed, NewInbox, Outcome, Part, Publish
from shardline.storage.journal import Journal
from shardline.storage.memory import open_memory
from tests.kits.bots import new_message, until_quiet
from tests.kits.crashes import crash_in

MAX_INFLIGHT = 16
LIMIT = 3


def bot_of(go: trio.Event, handled: list[str]) -> Topology:
    """`quick` ends at once, all else waits for `go`."""
    topology = Topology()

    @topology.on("chat.message", timeout_s=float("inf"))
    async def answer(ctx: Context, message: BusMessage) -> None:
        if message.payload.text != "quick":
            await go.wait()
        handled.append(message.payload.text)

    return topology


async def crash_the_shard(runtime: Runtime) -> None:
    """A turn of another conversation ends, and that is too much for the shard; then it runs again."""
    with crash_in(ShardInbox, "turn_ended", at=[1]) as failed:
        await runtime.publish(new_message("quick", key="fake:crash"))
        await trio.sleep(1)
    assert failed == [1]


async def fill(runtime: Runtime, key: str) -> int:
    """Publish until the conversation is full; answers with how many went in."""
    for number in range(10 * LIMIT):
        try:
            await runtime.publish(new_message(f"more {number}", key=key))
        except BusError as error:
            if error.code is not Code.QUEUE_FULL:
                raise
            return number
    raise AssertionError("never full")


@pytest.mark.parametrize("has_room", [True, False])
async def test_what_is_stored_after_the_crash_is_counted_once_and_frees_nothing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, has_room: bool
) -> None:
    """Offered before it, with tokens that the crash took along; also where the mailbox has no room for the news."""
    go, handled = trio.Event(), list[str]()
    late: list[Callable[[], None]] = []
    submit, is_late = Journal.submit, False

    def hold_up(journal: Journal, part: Part, settle: Callable[[Outcome], None]) -> None:
        row = part.row if isinstance(part, Publish) else None
        if is_late and isinstance(row, NewInbox) and row.message.conversation_key == "fake:a":
            late.append(partial(submit, journal, part, settle))
        else:
            submit(journal, part, settle)

    monkeypatch.setattr(Journal, "submit", hold_up)
    async with (
        Runtime.open(
            bot_of(go, handled),
            store=open_memory(shard_count=1),
            max_lane_backlog=LIMIT,
            max_inflight=MAX_INFLIGHT,
        ) as runtime,
        trio.open_nursery() as nursery,
    ):
        await runtime.publish(new_message("0"))
        is_late = True
        for text in ("1", "2"):
            nursery.start_soon(runtime.publish, new_message(text))
            await wait_all_tasks_blocked()
        await crash_the_shard(runtime)
        is_late = False
        if not has_room:
            monkeypatch.setattr(shard_module, "_MAILBOX", 0)
        for hand_over in late:
            hand_over()
        await trio.sleep(1)

        # One at work, two of three waiting.
        assert await fill(runtime, "fake:a") == LIMIT - 2
        go.set()
        await until_quiet(runtime)
        # The turn that the crash took along ran twice; the first one was cut off.
        assert handled == ["quick", "quick", "0", "1", "2", "more 0"]
        assert runtime.status().tokens_free == MAX_INFLIGHT


async def test_the_word_of_a_row_that_has_ended_counts_no_more(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited in the mailbox while the shard crashed; what it says was read from disk."""
    go, handled = trio.Event(), list[str]()
    words: list[Callable[[], None]] = []
    tell = ShardActor.tell_accepted

    def keep(shard: ShardActor, message: Accepted) -> None:
        words.append(partial(shard.tell, message))
        tell(shard, message)

    monkeypatch.setattr(ShardActor, "tell_accepted", keep)
    async with Runtime.open(
        bot_of(go, handled), store=open_memory(shard_count=1), max_lane_backlog=LIMIT
    ) as runtime:
        await runtime.publish(new_message("quick"))
        await until_quiet(runtime)
        await crash_the_shard(runtime)
        for text in ("0", "1"):
            await runtime.publish(new_message(text))
        words[0]()
        await trio.sleep(1)

        # One at work, one of three waiting.
        assert await fill(runtime, "fake:a") == LIMIT - 1
        go.set()
        await until_quiet(runtime)
        assert handled[3:] == ["0", "1", "more 0", "more 1"]


async def test_what_the_crashed_run_had_at_work_is_counted_while_it_is_given_back(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody publishes between the new lease and the commit that gives the claims back."""
    go, handled = trio.Event(), list[str]()
    commit = Journal.commit
    meanwhile: list[str] = []

    async def commit_later(journal: Journal, part: Commit) -> Committed:
        while meanwhile:
            await runtime.publish(new_message(meanwhile.pop()))
        return await commit(journal, part)

    monkeypatch.setattr(Journal, "commit", commit_later)
    async with Runtime.open(
        bot_of(go, handled), store=open_memory(shard_count=1), max_lane_backlog=20
    ) as runtime:
        for number in range(12):
            await runtime.publish(new_message(str(number)))
        meanwhile.append("12")
        await crash_the_shard(runtime)
        assert not meanwhile

        # One at work again, twelve of twenty waiting, most of them on disk alone.
        assert await fill(runtime, "fake:a") == 8
        go.set()
        await until_quiet(runtime)
        assert handled == ["quick", "quick", *map(str, range(13)), *(f"more {number}" for number in range(8))]
