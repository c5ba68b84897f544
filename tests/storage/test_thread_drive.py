"""The halves of a full batch take turns with the trio loop, and every entry is told once, in order."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from functools import partial

import attrs
import pytest
import trio

from shardline.actors.errors import BusError, Code
from shardline.storage.commands import Commit, Committed, Outcome, Part, Refused
from shardline.storage.thread_drive import ThreadDrive
from shardline.storage.writing import BatchWriter, Delivery, NotStoredError, OpenError, nothing

FULL_HOUSE = 400
"""More than a batch from which on there are halves."""


def ignore() -> None:
    """The store needs no closing."""


def ring(bell: trio.Event, _: Outcome) -> None:
    bell.set()


@attrs.define
class Disk:
    """Stores what it is given; `trouble` is asked before each batch, `sync` inside its COMMIT."""

    trouble: Callable[[], Exception | None] = lambda: None
    sync: Callable[[Sequence[Part]], None] = lambda _: None
    open_messages: int = 0
    stored: list[Part] = attrs.Factory(list[Part])

    def apply(self, parts: Sequence[Part], before_commit: Callable[[], None] = nothing) -> list[Outcome]:
        error = self.trouble()
        if error is not None:
            raise error
        before_commit()
        self.sync(parts)
        self.stored += parts
        return [Committed() for _ in parts]


def drive_of(disk: Disk, writer: BatchWriter | None = None) -> ThreadDrive:
    def deliver(delivery: Delivery) -> None:
        for settle, outcome in delivery.settled:
            settle(outcome)

    return ThreadDrive(writer or BatchWriter(disk, False), deliver, passes=3, orphaned=ignore)


async def test_what_a_commit_has_decided_is_worked_on_during_the_next_one() -> None:
    first_told = threading.Event()
    seen: list[bool] = []

    def sync(parts: Sequence[Part]) -> None:
        if parts[0] is not first:
            # On the disk: the trio thread is told of the half before meanwhile, or this waits in vain.
            seen.append(first_told.wait(20))

    drive = drive_of(Disk(sync=sync))
    parts = [Commit(shard=0, epoch=1, at_us=1) for _ in range(FULL_HOUSE)]
    first, told, all_told = parts[0], [0], trio.Event()

    def settle(_: Outcome) -> None:
        first_told.set()
        told[0] += 1
        if told[0] == FULL_HOUSE:
            all_told.set()

    for part in parts:
        drive.put((part, settle))
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive.serve)
            await all_told.wait()
            nursery.cancel_scope.cancel()

    assert seen
    assert all(seen)


async def test_one_alone_is_told_at_once() -> None:
    drive = drive_of(Disk())
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive.serve)
            for _ in range(20):
                told = trio.Event()
                drive.put((Commit(shard=0, epoch=1, at_us=1), partial(ring, told)))
                await told.wait()
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("seed", range(12))
async def test_each_is_told_once_in_order_whatever_the_disk_does(seed: int) -> None:
    dice = random.Random(seed)
    full = NotStoredError(BusError(Code.STORE_FULL, "full")), OpenError(BusError(Code.STORE_BUSY, "busy"))
    # The last seeds end in a store that cannot go on.
    left = [dice.randint(2, 20) if seed >= 8 else 10_000]

    def trouble() -> Exception | None:
        left[0] -= 1
        if left[0] <= 0:
            return BusError(Code.STORE_IO, "gone")
        return dice.choice(full) if dice.random() < 0.05 else None

    disk = Disk(trouble=trouble)
    writer = BatchWriter(disk, False)
    drive = drive_of(disk, writer)
    put: list[Part] = []
    told: list[tuple[Part, Outcome]] = []
    ended = trio.Event()

    def hand_over(generations: int) -> None:
        if not drive.accepts:
            return
        part = Commit(shard=0, epoch=1, at_us=len(put))
        put.append(part)

        def settle(outcome: Outcome) -> None:
            told.append((part, outcome))
            if generations:
                # As a turn does whose message is stored.
                hand_over(generations - 1)
            if len(told) == len(put):
                ended.set()

        drive.put((part, settle))

    for _ in range(FULL_HOUSE):
        hand_over(dice.randint(0, 4))
    failure: BusError | None = None
    with trio.fail_after(60):
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drive.serve)
                await ended.wait()
                nursery.cancel_scope.cancel()
        except* BusError as group:
            (failure,) = [error for error in group.exceptions if isinstance(error, BusError)]

    told_parts = [part for part, _ in told]
    told_stored = [part for part, outcome in told if not isinstance(outcome, Refused)]
    if failure is None:
        assert told_parts == put
        assert told_stored == disk.stored
    else:
        assert failure.code is Code.STORE_IO
        open_parts = [part for part, _ in [*writer.held, *drive.rest()]]
        assert told_parts + open_parts == put
        # What is open may be stored; STORE_IO says so.
        assert told_stored == disk.stored[: len(told_stored)]
