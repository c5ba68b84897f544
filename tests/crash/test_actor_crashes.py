"""Each kind of actor crashes with fifty conversations in flight: it starts again, and nothing is lost or done twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Literal

import attrs
import pytest
import structlog
import trio
from trio.testing import MockClock

from shardline import Runtime
from shardline.actors.child import ChildState
from shardline.adapters.base import Edge
from shardline.runtime import edge as edge_module
from shardline.runtime.edge import EdgeActor
from shardline.runtime.intake import Intake
from shardline.runtime.pool import WorkerPool
from shardline.runtime.relay import Relay
from shardline.runtime.send import Send
from shardline.runtime.shard import ShardActor
from shardline.runtime.shard_inbox import ShardInbox
from shardline.runtime.shard_outbox import ShardOutbox
from shardline.runtime.turn import Turn
from shardline.storage.journal import Journal
from shardline.storage.records import OutboxState
from tests.kits.crashes import (
    CONVERSATIONS,
    Crowd,
    Injected,
    Place,
    actors_of,
    busy_bot,
    check_all_up,
    check_nothing_lost,
    crash_in,
    no_task_left,
    work,
)

Kind = Literal["memory", "relayed", "file", "thread"]


@attrs.frozen
class Case:
    """A method of an actor that fails at some of its calls; `actor` is how the name of who crashes begins."""

    owner: type | ModuleType
    method: str
    at: Sequence[int]
    actor: str
    after: bool = False
    emits: bool = False
    kinds: Sequence[Kind] = ("memory", "file")


# Six crashes in a row are one more than a budget: the supervisor itself ends, and all that was started after it.
SIX = range(60, 66)
CASES = {
    "a shard at a turn's end": Case(ShardInbox, "turn_ended", [40, 90], "shard-"),
    "a shard after a turn's end": Case(ShardInbox, "turn_ended", [40, 90], "shard-", after=True),
    "a shard at an accept": Case(ShardInbox, "accepted", [30, 31, 80], "shard-"),
    "a shard after claims": Case(ShardInbox, "claimed", [2], "shard-"),
    "a shard at a send's end": Case(ShardOutbox, "send_ended", [50, 120], "shard-"),
    "a shard after a send's end": Case(ShardOutbox, "send_ended", [50, 120], "shard-", after=True),
    "a shard at placed sends": Case(ShardOutbox, "placed", [45], "shard-"),
    "the supervisor of shards": Case(ShardInbox, "turn_ended", SIX, "shards"),
    "the supervisor of shards at sends": Case(ShardOutbox, "send_ended", SIX, "shards", after=True),
    "turns": Case(Turn, "ended", [70], "topic-", after=True),
    "turns in their pool": Case(WorkerPool, "_begin", [100, 200], "", kinds=("memory",)),
    "the supervisor of turns": Case(Turn, "ended", range(60, 500, 20), "topics", after=True),
    "deliveries": Case(Send, "ended", [70], "delivery-", after=True),
    "the supervisor of deliveries": Case(Send, "ended", range(60, 500, 20), "outbox", after=True),
    "an edge before accepts": Case(EdgeActor, "accept", [50, 51, 170], "edge-"),
    "an edge after a token": Case(edge_module, "message_of", [50, 170], "edge-"),
    "the supervisor of edges": Case(EdgeActor, "accept", range(50, 800, 50), "edges"),
    "an accept": Case(Intake, "has_room", [60, 130], "edge-"),
    "the way into the journal": Case(Journal, "submit", [60, 150, 151], "", kinds=("memory", "file")),
    "the relay": Case(Relay, "_relay", [3, 20], "relay", emits=True, kinds=("relayed",)),
    "the supervisor of the relay": Case(
        Relay, "_relay", range(17, 23), "inbox", emits=True, kinds=("relayed",)
    ),
}


@pytest.mark.parametrize(
    ("case", "kind"),
    [pytest.param(case, kind, id=f"{name}-{kind}") for name, case in CASES.items() for kind in case.kinds],
)
async def test_an_actor_that_crashes_under_load_loses_nothing(
    autojump_clock: MockClock, tmp_path: Path, case: Case, kind: Kind
) -> None:
    crowd = Crowd()
    with structlog.testing.capture_logs() as lines, no_task_left():
        with crash_in(case.owner, case.method, at=case.at, after=case.after) as failed:
            async with Runtime.open(
                busy_bot(emits=case.emits), store=Place(kind, tmp_path).open(), adapters=[crowd]
            ) as runtime:
                await work(runtime)

                check_nothing_lost(runtime, crowd)
                await check_all_up(runtime)
                crashed = [name for name, actor in actors_of(runtime).items() if actor.crashes]
                assert any(name.startswith(case.actor) for name in crashed)
                told = [line for line in lines if line["event"] == "actor.crashed"]
                assert {line["actor"] for line in told} == set(crashed)
                assert runtime.status().run["crashes"] >= 1
    assert failed


RECOVERIES = {
    "at its lease": (ShardActor, "_recover", [1, 2]),
    "at its new lanes": (ShardInbox, "__init__", [5, 7]),
    "at sends under way": (ShardOutbox, "adopt", [1]),
    "at its first flush": (ShardInbox, "refill", [5]),
}


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("where", RECOVERIES)
async def test_a_shard_that_crashes_again_while_it_recovers_loses_nothing(
    autojump_clock: MockClock, tmp_path: Path, where: str, kind: Kind
) -> None:
    owner, method, at = RECOVERIES[where]
    crowd = Crowd()
    with (
        structlog.testing.capture_logs(),
        crash_in(ShardInbox, "turn_ended", at=[40, 90], after=True),
        # Its end is not on disk yet, so that send is found under way.
        crash_in(ShardOutbox, "send_ended", at=[60]),
        crash_in(owner, method, at=at) as failed,
    ):
        async with Runtime.open(busy_bot(), store=Place(kind, tmp_path).open(), adapters=[crowd]) as runtime:
            await work(runtime)

            check_nothing_lost(runtime, crowd)
            await check_all_up(runtime)
    assert failed


class Moody(Crowd):
    """Its second run goes wrong in its own way, after the first was cut off in the middle of everything."""

    def __init__(self, mood: str) -> None:
        super().__init__()
        self.mood = mood
        self.runs = 0

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.runs += 1
        if self.runs == 1:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.fail_after, 0.006)
                await super().run(edge, task_status=task_status)
        elif self.runs == 2:
            if self.mood == "hangs":
                await trio.sleep_forever()
            elif self.mood == "raises":
                raise Injected
            elif self.mood == "is ready twice":
                task_status.started()
                task_status.started()
            await trio.lowlevel.checkpoint()
        else:
            await super().run(edge, task_status=task_status)

    async def fail_after(self, delay_s: float) -> None:
        await trio.sleep(delay_s)
        raise ExceptionGroup("both sockets", [Injected(), Injected()])


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("mood", ["hangs", "raises", "returns", "is ready twice"])
async def test_a_channel_that_goes_wrong_in_any_way_loses_nothing(
    autojump_clock: MockClock, tmp_path: Path, mood: str, kind: Kind
) -> None:
    """It raises a group at first; then, see its mood; then it runs well."""
    crowd = Moody(mood)
    with structlog.testing.capture_logs() as lines, no_task_left():
        async with Runtime.open(busy_bot(), store=Place(kind, tmp_path).open(), adapters=[crowd]) as runtime:
            await work(runtime)

            check_nothing_lost(runtime, crowd)
            await check_all_up(runtime)
            assert actors_of(runtime)["edge-crowd"].crashes == 2
    assert crowd.runs == 3
    types = [line["error_type"] for line in lines if line["event"] == "actor.crashed"]
    second = {"hangs": "StartTimeoutError", "raises": "Injected"}.get(mood, "RuntimeError")
    assert types == ["ExceptionGroup", second]


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_what_a_channel_cannot_look_up_is_uncertain_and_never_sent_twice(
    autojump_clock: MockClock, tmp_path: Path, kind: Kind
) -> None:
    """Sends that were under way when the delivery actor crashed wait for a person; all others go on in order."""
    crowd = Crowd(reconciles=False)
    with structlog.testing.capture_logs(), no_task_left():
        async with Runtime.open(busy_bot(), store=Place(kind, tmp_path).open(), adapters=[crowd]) as runtime:
            with crash_in(Send, "ended", at=[70], after=True) as failed:
                await work(runtime)

            check_nothing_lost(runtime, crowd, uncertain=True)
            uncertain = runtime.status().outbox[OutboxState.UNCERTAIN]
            assert 0 < uncertain < CONVERSATIONS
    assert failed


async def test_the_status_shows_the_tree_with_what_went_wrong_in_it(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    crowd = Crowd()
    with structlog.testing.capture_logs():
        async with Runtime.open(
            busy_bot(), store=Place("file", tmp_path).open(), adapters=[crowd]
        ) as runtime:
            with crash_in(ShardInbox, "turn_ended", at=SIX):
                await work(runtime)
            status = runtime.status()

    names = [
        *("journal", "recovery", "inbox", "alarms", "shards"),
        *("topics", "outbox", "timers", "edges", "upkeep"),
    ]
    assert [actor.name for actor in status.actors] == names
    by_name = {actor.name: actor for actor in status.actors}
    assert by_name["recovery"].state is ChildState.ENDED
    shards = by_name["shards"]
    assert (shards.crashes, shards.restarts, shards.last_error_type, shards.last_error_code) == (
        1,
        1,
        "Injected",
        None,
    )
    assert [by_name[name].restarts for name in ("journal", "alarms", "topics", "outbox", "timers")] == [
        0,
        0,
        1,
        1,
        1,
    ]
    assert [shard.name for shard in shards.children] == [f"shard-{n}" for n in range(4)]
    assert sum(shard.crashes for shard in shards.children) == status.run["crashes"] == 6
    assert {(shard.mailbox_messages, shard.mailbox_capacity) for shard in shards.children} == {(0, 8192)}
    [edge] = by_name["edges"].children
    assert (edge.name, edge.state, edge.mailbox_capacity) == ("edge-crowd", ChildState.ENDED, None)
