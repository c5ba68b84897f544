"""Any call of a store to its files fails, once or for ever: opening, running or closing, one call after the other.

A whole bot over failing writes and syncs: `test_vfs_bot.py`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Generator, Sequence
from pathlib import Path

import apsw
import pytest
import trio
from trio.testing import MockClock

from shardline.actors.errors import BusError, Code
from shardline.storage.sqlite import open_sqlite
from tests.kits.faulty_vfs import Fault, FaultyVfs
from tests.kits.store_checks import check_store
from tests.kits.store_rows import Hand, finish_row

PUBLISHES = 12
"""Some 460 calls to the files, from the opening to the end."""

SURE = frozenset({Code.STORE_FULL, Code.STORE_BUSY, Code.BUS_CLOSED})
"""What was refused so is not stored."""

ENDS = frozenset(
    {Code.STORE_IO, Code.STORE_FULL, Code.STORE_CORRUPT, Code.BUS_CLOSED, Code.UNSAFE_FILESYSTEM}
)
"""What an opening or a run may end with."""

LONG = pytest.mark.long
EVERY = tuple(range(1, 201))
SOME = tuple(sorted(random.Random(43).sample(range(201, 441), 200)))


@pytest.fixture
def vfs() -> Generator[FaultyVfs]:
    vfs = FaultyVfs("any-fault")
    yield vfs
    vfs.unregister()


async def work(hand: Hand, stored: set[str], refused: set[str]) -> None:
    """Publish one after the other, and finish each."""
    for number in range(PUBLISHES):
        row = hand.new_inbox("tg:1", number)
        try:
            await hand.store.publish(hand.publish(row))
        except BusError as error:
            if error.code in SURE:
                refused.add(row.dedupe_key)
            if error.code not in {Code.STORE_FULL, Code.STORE_BUSY}:
                return
        else:
            stored.add(row.dedupe_key)
    record = await hand.accept("tg:2", 0, claim=True)
    stored.add("in:telegram:tg:2:0")
    await hand.move(finish_row(record))


async def run_over(path: Path, vfs: FaultyVfs, fault: Fault) -> tuple[set[str], set[str]]:
    """Open, work and close over a fault; what was answered as stored, and what was refused for sure."""
    stored: set[str] = set()
    refused: set[str] = set()
    codes: set[Code] = set()
    vfs.met = 0
    vfs.arm(fault)
    try:
        store = open_sqlite(path, vfs=vfs.name, mode="inline")
        async with trio.open_nursery() as nursery:
            await nursery.start(store.run)
            await work(Hand(store), stored, refused)
            nursery.cancel_scope.cancel()
    except* BusError as group:
        codes = {error.code for error in leaves(group)}
    finally:
        vfs.arm(None)
    assert codes <= ENDS
    return stored, refused


def leaves(group: BaseExceptionGroup[BusError]) -> list[BusError]:
    found: list[BusError] = []
    for error in group.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


@pytest.mark.parametrize(
    ("nths", "errors"),
    [
        ((1, 7, 30, 90, 150), (apsw.IOError,)),
        ((1, 7, 30, 90, 150), (apsw.FullError,)),
        pytest.param(EVERY, (apsw.IOError,), marks=LONG),
        pytest.param(EVERY, (apsw.FullError,), marks=LONG),
        pytest.param(SOME, (apsw.IOError, apsw.FullError), marks=LONG),
    ],
)
@pytest.mark.parametrize("count", [1, None])
async def test_whatever_call_fails_what_was_answered_is_there_and_what_was_refused_is_not(
    tmp_path: Path,
    vfs: FaultyVfs,
    autojump_clock: MockClock,
    count: int | None,
    errors: Sequence[type[apsw.Error]],
    nths: Sequence[int],
) -> None:
    met = 0
    for nth, error in zip(nths, itertools.cycle(errors), strict=False):
        path = tmp_path / f"{nth}.db"
        fault = Fault("any", suffix="", nth=nth, count=count, error=error)
        stored, refused = await run_over(path, vfs, fault)
        met += vfs.met > 0
        open_sqlite(path, mode="inline", vfs=vfs.name).close()
        found = check_store(path)

        assert stored <= found, nth
        assert not refused & found, nth
    assert met == len(nths)
