"""The journal crashes with fifty conversations in flight: the runtime ends, and the next one goes on from the disk."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Literal

import pytest
import structlog
import trio
from trio.testing import MockClock

from shardline import BusError, Code, Runtime
from shardline.actors.failpoints import FailPointError, FailPoints
from shardline.runtime.shard import ShardActor
from shardline.storage.journal import Journal
from shardline.storage.writing import BatchWriter
from tests.kits.crashes import (
    Crowd,
    Injected,
    Place,
    busy_bot,
    check_nothing_lost,
    crash_in,
    no_task_left,
    work,
)

POINTS = [
    f"{kind}.{border}:3:raise"
    for kind in ("accept", "done", "send-start", "send-result")
    for border in ("before_commit", "after_commit", "before_wake")
]


async def check_goes_on(place: Place, crowd: Crowd) -> None:
    """A new runtime over the same store ends everything; the platform repeats what it has no answer for."""
    async with Runtime.open(busy_bot(), store=place.open(), adapters=[crowd]) as runtime:
        await work(runtime)
        check_nothing_lost(runtime, crowd)


async def crash_at(point: str, place: Place, crowd: Crowd) -> None:
    """Run until the point is hit; the error comes out bare, and everybody who waited is told."""
    with trio.fail_after(60), pytest.raises((BusError, FailPointError)) as ended:
        async with Runtime.open(
            busy_bot(), store=place.open(FailPoints.parse(point)), adapters=[crowd], grace_s=1
        ) as runtime:
            await runtime.serve()
    assert not isinstance(ended.value, BusError) or ended.value.code is Code.STORE_IO


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_journal_that_raises_under_load_loses_nothing(
    autojump_clock: MockClock, tmp_path: Path, point: str, kind: Literal["memory", "file"]
) -> None:
    place, crowd = Place(kind, tmp_path), Crowd()
    with structlog.testing.capture_logs() as lines, no_task_left():
        await crash_at(point, place, crowd)
        assert [line["event"] for line in lines].count("actor.escalated") == 1
        await check_goes_on(place, crowd)


@pytest.mark.parametrize(
    "point", ["accept.before_commit:3:raise", "done.after_commit:3:raise", "send-result.before_wake:3:raise"]
)
async def test_a_journal_whose_thread_raises_under_load_loses_nothing(tmp_path: Path, point: str) -> None:
    place, crowd = Place("thread", tmp_path), Crowd()
    with structlog.testing.capture_logs(), no_task_left():
        await crash_at(point, place, crowd)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("shardline")]
        await check_goes_on(place, crowd)


@pytest.mark.parametrize(
    ("owner", "method", "after"),
    # What has told nobody and raises cannot say whom it has told: there is no such place in it.
    [(BatchWriter, "write", False), (BatchWriter, "write", True), (Journal, "_tell", True)],
)
async def test_a_bug_in_the_journal_under_load_ends_the_runtime_and_loses_nothing(
    tmp_path: Path, owner: type, method: str, after: bool
) -> None:
    """On its own thread, in real time: the writing itself, and the telling."""
    place, crowd = Place("thread", tmp_path), Crowd()
    with structlog.testing.capture_logs(), no_task_left():
        with (
            trio.fail_after(60),
            pytest.raises((BusError, Injected)),
            crash_in(owner, method, at=[4], after=after) as failed,
        ):
            async with Runtime.open(busy_bot(), store=place.open(), adapters=[crowd], grace_s=1) as runtime:
                await runtime.serve()
        assert failed
        await check_goes_on(place, crowd)


async def test_a_callback_that_raises_keeps_no_publisher_waiting(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """What the journal tells a shard fails: the runtime ends, and nobody is left waiting for an outcome."""
    place, crowd = Place("file", tmp_path), Crowd()
    with structlog.testing.capture_logs(), no_task_left():
        with (
            trio.fail_after(60),
            pytest.raises((BusError, Injected)),
            crash_in(ShardActor, "tell_accepted", at=[40]) as failed,
        ):
            async with Runtime.open(busy_bot(), store=place.open(), adapters=[crowd], grace_s=1) as runtime:
                await runtime.serve()
        assert failed
        await check_goes_on(place, crowd)
