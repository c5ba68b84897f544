"""Opening changes nothing unless all of it is fine."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
import structlog.testing

from shardline.actors.clock import SystemClock
from shardline.actors.errors import Code
from shardline.storage.commands import Stored
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.migrate import Migration, load_migrations
from shardline.storage.sqlite.opening import open_file
from shardline.storage.sqlite.settings import Settings
from tests.kits.faulty_vfs import Fault, FaultyVfs
from tests.kits.store_checks import check_store
from tests.kits.stores import running
from tests.kits.words import refused

ROOT = Path(__file__).parents[3]
NEWEST = load_migrations()[-1].number
WIDEN = Migration(
    NEWEST + 1, "CREATE TABLE extra (id INTEGER PRIMARY KEY) STRICT; INSERT INTO extra VALUES (7);"
)
BROKEN = Migration(
    NEWEST + 1, "CREATE TABLE extra (id INTEGER PRIMARY KEY) STRICT; INSERT INTO missing VALUES (7);"
)

# More than the cache holds: it goes to the log before the COMMIT.
LARGE = Migration(
    NEWEST + 1,
    "CREATE TABLE extra (id INTEGER PRIMARY KEY, content BLOB NOT NULL) STRICT;"
    " WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 2000)"
    " INSERT INTO extra SELECT value, randomblob(4000) FROM n;",
)


async def make_store(path: Path) -> None:
    async with running(open_sqlite(path)) as hand:
        for number in range(30):
            await hand.accept("tg:1", number)


def backups(folder: Path) -> list[Path]:
    return list(folder.glob("*.backup"))


def execute(path: Path, statement: str) -> None:
    database = apsw.Connection(str(path))
    database.execute(statement)
    database.close()


def read(path: Path, query: str) -> list[apsw.SQLiteValues]:
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


async def test_newer_file_is_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    await make_store(path)
    execute(path, "UPDATE store_meta SET schema = schema + 1")
    before = path.read_bytes()
    with refused(Code.SCHEMA_TOO_NEW):
        open_sqlite(path)

    assert path.read_bytes() == before


@pytest.mark.parametrize(("shard_count", "lane_policy"), [(8, "conversation"), (16, "participant")])
async def test_other_settings_are_refused_unchanged(
    tmp_path: Path, shard_count: int, lane_policy: str
) -> None:
    path = tmp_path / "bot.db"
    await make_store(path)
    before = path.read_bytes()
    with refused(Code.STORE_MISMATCH):
        open_sqlite(path, shard_count=shard_count, lane_policy=lane_policy)
    database = MemoryDatabase()
    open_memory(database=database).close()
    with refused(Code.STORE_MISMATCH):
        open_memory(database=database, shard_count=shard_count, lane_policy=lane_policy)

    assert path.read_bytes() == before


async def test_database_of_another_program_is_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    execute(path, "CREATE TABLE photos (id INTEGER PRIMARY KEY)")
    before = path.read_bytes()
    with refused(Code.STORE_MISMATCH):
        open_sqlite(path)

    assert path.read_bytes() == before


@pytest.mark.parametrize("where", [(0, 100), (100, 200), (20, 24), (0, 4096)])
async def test_damaged_file_is_refused_unchanged(tmp_path: Path, where: tuple[int, int]) -> None:
    """Field report 45: one typed error, one record, the bytes as they were."""
    path = tmp_path / "bot.db"
    await make_store(path)
    damaged = bytearray(path.read_bytes())
    damaged[where[0] : where[1]] = b"\xff" * (where[1] - where[0])
    path.write_bytes(damaged)
    for _ in range(2):
        with structlog.testing.capture_logs() as logs, refused(Code.STORE_CORRUPT):
            open_sqlite(path)

        assert logs == []
        assert path.read_bytes() == bytes(damaged)


async def test_text_file_is_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database")
    with refused(Code.STORE_CORRUPT):
        open_sqlite(path)

    assert path.read_text() == "not a database"


async def test_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    path.touch()
    await make_store(path)

    assert len(check_store(path)) == 30


async def test_refused_store_is_not_locked(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    await make_store(path)
    for _ in range(2):
        with refused(Code.STORE_MISMATCH):
            open_sqlite(path, shard_count=4)
    async with running(open_sqlite(path)) as hand:
        assert hand.store.info.instance == 2


def test_migrations_are_numbered_without_holes() -> None:
    assert [step.number for step in load_migrations()] == list(range(1, len(load_migrations()) + 1))


async def test_older_file_is_copied_then_migrated(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    await make_store(path)
    opened = open_file(path, Settings(), SystemClock().wall_us(), (*load_migrations(), WIDEN))
    opened.source.discard(opened.connection)
    opened.lock.release()

    (copy,) = backups(tmp_path)
    assert opened.info.schema == WIDEN.number
    assert read(path, "SELECT id FROM extra") == [(7,)]
    assert read(path, "SELECT schema FROM store_meta") == [(WIDEN.number,)]
    assert read(copy, "SELECT schema FROM store_meta") == [(NEWEST,)]
    assert read(copy, "SELECT count(*) FROM inbox") == [(30,)]
    assert copy.stat().st_mode & 0o777 == 0o600
    with refused(Code.SCHEMA_TOO_NEW):
        open_sqlite(path)


@pytest.mark.parametrize("suffix", [".backup", "-wal"])
async def test_migration_over_a_full_disk_leaves_nothing_behind(tmp_path: Path, suffix: str) -> None:
    """A service manager starts it again and again: a copy each time would fill what room there is."""
    path, vfs = tmp_path / "bot.db", FaultyVfs("full-for-a-migration")
    await make_store(path)
    try:
        for _ in range(2):
            vfs.arm(Fault("write", suffix=suffix, count=None, error=apsw.FullError))
            with refused(Code.STORE_FULL):
                open_file(path, Settings(vfs=vfs.name), SystemClock().wall_us(), (*load_migrations(), LARGE))
            assert backups(tmp_path) == []
    finally:
        vfs.unregister()
    async with running(open_sqlite(path)) as hand:
        assert hand.store.info.schema == NEWEST


async def openings(path: Path) -> list[tuple[object, object]]:
    """What the next opening of a store says."""
    with structlog.testing.capture_logs() as logs:
        async with running(open_sqlite(path)):
            pass
    return [(entry["event"], entry["instance"]) for entry in logs]


async def test_a_store_without_the_log_of_its_last_run_says_so(tmp_path: Path) -> None:
    """What was answered is gone, and nothing in the file itself tells."""
    path, killed = tmp_path / "live" / "bot.db", tmp_path / "killed"
    path.parent.mkdir()
    await make_store(path)
    async with running(open_sqlite(path)) as hand:
        await hand.accept("tg:2", 1)
        shutil.copytree(path.parent, killed)
    (killed / "bot.db-wal").unlink()
    (killed / "bot.db-shm").unlink()

    assert await openings(path) == [("store.opened", 3)]
    assert await openings(killed / "bot.db") == [("store.went_back", 2), ("store.opened", 2)]
    assert await openings(killed / "bot.db") == [("store.opened", 3)]


async def test_a_backup_in_the_place_of_a_store_is_said_once(tmp_path: Path) -> None:
    path, backup = tmp_path / "bot.db", tmp_path / "backup"
    await make_store(path)
    shutil.copyfile(path, backup)
    assert await openings(path) == [("store.opened", 2)]
    shutil.copyfile(backup, path)

    assert await openings(path) == [("store.went_back", 2), ("store.opened", 2)]
    assert await openings(path) == [("store.opened", 3)]


async def test_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    await make_store(path)
    for _ in range(2):
        with refused(Code.STORE_IO, "no such table"):
            open_file(path, Settings(), SystemClock().wall_us(), (*load_migrations(), BROKEN))
    async with running(open_sqlite(path)) as hand:
        assert hand.store.info.schema == NEWEST
        assert hand.store.info.instance == 2
    assert len(check_store(path)) == 30


KILLED = """
import os, signal, sys
import trio
from shardline.storage.sqlite import open_sqlite
from tests.kits.store_rows import Hand

async def main():
    store = open_sqlite(sys.argv[1])
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        await Hand(store).accept("tg:1", 1)
        os.kill(os.getpid(), signal.SIGKILL)

trio.run(main)
"""


def run_killed(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=30, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL


async def test_store_of_a_killed_process_is_opened_and_not_called_clean(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    run_killed(path)
    assert path.with_name("bot.db-wal").stat().st_size
    async with running(open_sqlite(path)) as hand:
        assert not hand.store.info.clean
        assert hand.store.info.instance == 2
        assert isinstance(await hand.store.publish(hand.publish(hand.new_inbox("tg:1", 2))), Stored)
    async with running(open_sqlite(path)) as hand:
        assert hand.store.info.clean
