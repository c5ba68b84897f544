"""What a failing disk does: no answered row is missing, no refused one is there, nothing is answered by guess."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

import apsw
import pytest
import structlog.testing
import trio
import trio.testing

from shardline.actors.errors import BusError, Code
from shardline.storage.commands import Committed, Outcome, StateWrite, Stored
from shardline.storage.journal import Journal, Mode
from shardline.storage.sqlite import open_sqlite
from tests.kits.faulty_vfs import Fault, FaultyVfs, Operation
from tests.kits.store_checks import check_store
from tests.kits.store_rows import Hand, finish_row
from tests.kits.stores import refusal_code, running, submit_all
from tests.kits.words import refused

EVERY = tuple(range(1, 600))
"""Calls that are made to fail, one a run; a run has fewer."""
OPERATIONS: tuple[Operation, ...] = ("sync", "write")


@pytest.fixture
def vfs() -> Generator[FaultyVfs]:
    vfs = FaultyVfs("faulty")
    yield vfs
    vfs.unregister()


def open_faulty(path: Path, vfs: FaultyVfs, mode: Mode = "inline") -> Journal:
    return open_sqlite(path, vfs=vfs.name, mode=mode)


def copy_killed(path: Path) -> Path:
    """A copy of a store's files as a kill would leave them now."""
    copy = path.with_name(f"{path.name}-killed")
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
    return copy


async def publish_many(hand: Hand, count: int) -> tuple[set[str], set[str]]:
    """Publish one after the other; the keys stored, and those refused as not stored."""
    stored: set[str] = set()
    missing: set[str] = set()
    for number in range(count):
        row = hand.new_inbox(f"tg:{number % 5}", number)
        try:
            await hand.store.publish(hand.publish(row, claim=True))
        except BusError as error:
            if error.code is not Code.STORE_FULL:
                raise
            missing.add(row.dedupe_key)
        else:
            stored.add(row.dedupe_key)
    return stored, missing


@pytest.mark.parametrize("mode", ["inline", "thread"])
@pytest.mark.parametrize("failures", [1, 2])
async def test_failed_sync_is_tried_again_and_stored_once(
    tmp_path: Path, vfs: FaultyVfs, mode: Mode, failures: int
) -> None:
    path = tmp_path / "bot.db"
    async with running(open_faulty(path, vfs, mode)) as hand:
        record = await hand.accept("tg:1", 1, claim=True)
        vfs.arm(Fault("sync", count=failures))
        outcomes = await submit_all(
            hand,
            hand.commit(record.shard, inbox=(finish_row(record),), state=(StateWrite("tg:1", b"s", 1),)),
            *(hand.publish(hand.new_inbox("tg:1", number)) for number in range(2, 5)),
        )
        after = await hand.accept("tg:1", 5)

        assert vfs.met == failures
        assert [type(outcome) for outcome in outcomes] == [Committed, Stored, Stored, Stored]
        assert after.offset == 4
        assert hand.store.reader.count_inbox()
    assert len(check_store(path)) == 5


@pytest.mark.parametrize("mode", ["inline", "thread"])
async def test_third_failure_ends_the_store_and_answers_everything_open(
    tmp_path: Path, vfs: FaultyVfs, mode: Mode
) -> None:
    path = tmp_path / "bot.db"
    outcomes: list[Outcome] = []
    given_up = pytest.RaisesGroup(pytest.RaisesExc(BusError, check=lambda error: error.code is Code.STORE_IO))
    with structlog.testing.capture_logs() as logs, given_up:
        async with running(open_faulty(path, vfs, mode)) as hand:
            await hand.accept("tg:1", 1)
            vfs.arm(Fault("sync", count=None))
            for number in range(2, 6):
                hand.store.submit(hand.publish(hand.new_inbox("tg:1", number)), outcomes.append)
            with refused(Code.STORE_IO):
                await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 6)))
            await trio.sleep_forever()
    vfs.arm(None)

    assert [refusal_code(outcome) for outcome in outcomes] == [Code.STORE_IO] * 4
    assert [entry["failures"] for entry in logs if entry["event"] == "store.write_failed"] == [1, 2, 3]
    async with running(open_faulty(path, vfs)) as hand:
        assert not hand.store.info.clean
        again = [
            await hand.store.publish(hand.publish(hand.new_inbox("tg:1", number))) for number in range(1, 7)
        ]
    assert len(again) == len(check_store(path)) == 6


@pytest.mark.parametrize("nths", [(1, 4, 10, 25), pytest.param(EVERY, marks=pytest.mark.long)])
@pytest.mark.parametrize("error", [apsw.IOError, apsw.FullError])
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_each_failure_of_a_run_leaves_only_what_was_answered(
    tmp_path: Path,
    vfs: FaultyVfs,
    autojump_clock: trio.testing.MockClock,
    operation: Operation,
    late: bool,
    error: type[apsw.Error],
    nths: tuple[int, ...],
) -> None:
    met = 0
    for nth in nths:
        path = tmp_path / f"{nth}.db"
        async with running(open_faulty(path, vfs)) as hand:
            vfs.met = 0
            vfs.arm(Fault(operation, nth=nth, late=late, error=error))
            stored, missing = await publish_many(hand, 12)
            met += vfs.met
            vfs.arm(None)
            if not vfs.met:
                # There were not so many calls, nor will there be more.
                break
            killed = copy_killed(path)
            later, none = await publish_many(hand, 5)

        assert not none
        assert len(later) == 5
        assert check_store(killed) == stored
        assert not stored & missing
        assert check_store(path) == stored | later
    else:
        assert nths[-1] < EVERY[-1], "there are more calls than were made to fail"
    assert met > 1


@pytest.mark.parametrize("is_replaced", [True, False])
async def test_a_file_that_took_the_place_of_the_store_is_not_written_after_a_failure(
    tmp_path: Path, vfs: FaultyVfs, is_replaced: bool
) -> None:
    """A failed write opens the store again, by its path."""
    path, other = tmp_path / "bot.db", tmp_path / "other.db"
    async with running(open_sqlite(other)) as hand:
        await hand.accept("tg:2", 1)
    before = other.read_bytes()
    given_up = pytest.RaisesGroup(
        pytest.RaisesExc(BusError, match="was moved, replaced or deleted while it was open")
    )
    with given_up:
        async with running(open_faulty(path, vfs)) as hand:
            await hand.accept("tg:1", 1)
            if is_replaced:
                other.replace(path)
            else:
                path.unlink()
            vfs.arm(Fault("write"))
            with refused(Code.STORE_IO):
                await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 2)))
            await trio.sleep_forever()

    assert vfs.met == 1
    assert not path.exists() or path.read_bytes() == before


async def test_full_disk_refuses_publishes_and_keeps_commits(
    tmp_path: Path, vfs: FaultyVfs, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "bot.db"
    async with running(open_faulty(path, vfs)) as hand:
        records = [await hand.accept("tg:1", number, claim=True) for number in range(3)]
        vfs.arm(Fault("write", count=None, error=apsw.FullError))
        commits: list[Outcome] = []
        for record in records:
            hand.store.submit(hand.commit(record.shard, inbox=(finish_row(record),)), commits.append)
        publishes: list[Outcome] = []
        hand.store.submit(hand.publish(hand.new_inbox("tg:1", 9)), publishes.append)
        await trio.sleep(3)

        assert commits == []
        assert hand.inbox(records[0].id) == records[0]
        began = trio.current_time()
        vfs.arm(None)
        await hand.accept("tg:1", 10)
        assert trio.current_time() - began <= 5.0
        assert commits == [Committed()] * 3
        # Nobody could say whether it was stored while even the smallest write failed, so it was tried again.
        assert [type(outcome) for outcome in publishes] == [Stored]
    assert len(check_store(path)) == 5


async def test_full_disk_that_takes_a_small_write_refuses_for_sure(
    tmp_path: Path, vfs: FaultyVfs, autojump_clock: trio.testing.MockClock
) -> None:
    """All frames of the failed commit are in the log; a restart would find the row that was refused."""
    path = tmp_path / "bot.db"
    async with running(open_faulty(path, vfs)) as hand:
        await hand.accept("tg:1", 1)
        vfs.arm(Fault("sync", error=apsw.FullError))
        with refused(Code.STORE_FULL):
            await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 2)))
        killed = copy_killed(path)

    assert vfs.met == 1
    assert check_store(killed) == {"in:telegram:tg:1:1"}


async def test_closing_over_a_full_disk_is_bounded_and_not_clean(
    tmp_path: Path, vfs: FaultyVfs, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "bot.db"
    outcomes: list[Outcome] = []
    async with running(open_faulty(path, vfs)) as hand:
        record = await hand.accept("tg:1", 1, claim=True)
        vfs.arm(Fault("write", count=None, error=apsw.FullError))
        hand.store.submit(hand.commit(record.shard, inbox=(finish_row(record),)), outcomes.append)
        began = trio.current_time()

    assert trio.current_time() - began < 20
    # Whether it is stored is not known: the last write of it failed inside its COMMIT.
    assert [refusal_code(outcome) for outcome in outcomes] == [Code.STORE_IO]
    vfs.arm(None)
    async with running(open_faulty(path, vfs)) as hand:
        assert not hand.store.info.clean
        assert hand.inbox(record.id) == record


async def test_write_that_fails_before_the_commit_is_tried_again(tmp_path: Path, vfs: FaultyVfs) -> None:
    """A transaction larger than the page cache writes to the log before its COMMIT."""
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path, vfs=vfs.name, mode="inline", cache_bytes=16_384)) as hand:
        vfs.arm(Fault("write", nth=20))
        key = "tg:1"
        writes = tuple(StateWrite(f"{key}:{number}", bytes(60_000), 1) for number in range(10))
        await hand.store.commit(hand.commit(hand.shard(key), state=writes))

        assert vfs.met == 1
        assert all(hand.store.reader.state(write.conversation_key) for write in writes)
    check_store(path)
