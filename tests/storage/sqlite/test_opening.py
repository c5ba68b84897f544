"""Opening changes nothing unless all of it is fine."""

from __future__ import annotations

import math
import shutil
import signal
from pathlib import Path

import apsw
import pytest
import structlog.testing

from shardline.actors.clock import SystemClock
from shardline.actors.errors import Code
from shardline.storage.commands import Stored
from shardline.storage.memory import MemoryDatabase, open_memory
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.lock import OwnerLock
from shardline.storage.sqlite.migrate import Migration, load_migrations
from shardline.storage.sqlite.opening import open_file
from shardline.storage.sqlite.settings import Settings
from shardline.storage.sqlite.trouble import Mark
from tests.kits.faulty_vfs import Fault, FaultyVfs
from tests.kits.forked import Script, run_forked
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


def copies(folder: Path) -> list[str]:
    """Names of all that a migration leaves beside a store."""
    return [file.name for file in folder.iterdir() if ".schema-" in file.name]


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


@pytest.mark.parametrize("suffix", [".partial", "-wal"])
async def test_migration_over_a_full_disk_leaves_nothing_behind(tmp_path: Path, suffix: str) -> None:
    """A service manager starts it again and again: a copy each time would fill what room there is."""
    path, vfs = tmp_path / "bot.db", FaultyVfs("full-for-a-migration")
    await make_store(path)
    try:
        for _ in range(2):
            vfs.arm(Fault("write", suffix=suffix, count=None, error=apsw.FullError))
            with refused(Code.STORE_FULL):
                open_file(path, Settings(vfs=vfs.name), SystemClock().wall_us(), (*load_migrations(), LARGE))
            assert copies(tmp_path) == []
    finally:
        vfs.unregister()
    async with running(open_sqlite(path)) as hand:
        assert hand.store.info.schema == NEWEST


def copy_live(path: Path, backup: Path) -> None:
    source, target = apsw.Connection(str(path)), apsw.Connection(str(backup))
    with target.backup("main", source, "main") as copying:
        copying.step()
    target.close()
    source.close()


async def openings(path: Path) -> list[tuple[object, object]]:
    """What the next opening of a store says."""
    with structlog.testing.capture_logs() as logs:
        async with running(open_sqlite(path)):
            pass
    return [(entry["event"], entry["instance"]) for entry in logs]


KILLED_IN_A_MIGRATION = """
import sys
from pathlib import Path
from shardline.actors.system import kill_this_process
from shardline.storage.sqlite import {module}
from shardline.storage.sqlite.migrate import Migration, load_migrations
from shardline.storage.sqlite.settings import Settings

def kill(*_):
    kill_this_process()

{module}.migrate = kill
steps = (*load_migrations(), Migration(len(load_migrations()) + 1, "SELECT 1"))
{call}
"""


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("opening", "opening.open_file(Path(sys.argv[1]), Settings(), 1_000 + int(sys.argv[2]), steps)"),
        ("upgrade", "upgrade.upgrade_file(Path(sys.argv[1]), 1_000 + int(sys.argv[2]), steps)"),
    ],
)
async def test_migration_that_is_killed_again_and_again_leaves_one_copy_at_most(
    tmp_path: Path, module: str, call: str
) -> None:
    """A service manager that waits no longer kills it, and starts it again."""
    path = tmp_path / "bot.db"
    await make_store(path)
    for number in range(3):
        run_killed(path, str(number), program=KILLED_IN_A_MIGRATION.format(module=module, call=call))
    assert copies(tmp_path) == [f"bot.db.schema-{NEWEST}.partial"]

    opened = open_file(path, Settings(), SystemClock().wall_us(), (*load_migrations(), WIDEN))
    opened.source.discard(opened.connection)
    opened.lock.release()
    (copy,) = backups(tmp_path)
    assert copies(tmp_path) == [copy.name]
    assert read(copy, "SELECT count(*) FROM inbox") == [(30,)]


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


async def test_a_backup_of_the_last_run_itself_is_said(tmp_path: Path) -> None:
    """The usual one: it has the number of the run that it was made in, and not what came in since."""
    path, backup = tmp_path / "bot.db", tmp_path / "backup"
    async with running(open_sqlite(path)) as hand:
        await hand.accept("tg:1", 1)
        copy_live(path, backup)
        await hand.accept("tg:1", 2)
    shutil.copyfile(backup, path)

    assert await openings(path) == [("store.went_back", 2), ("store.opened", 2)]
    assert await openings(path) == [("store.opened", 3)]


async def test_a_log_that_was_lost_after_a_checkpoint_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The opening has reached the file by then, and what came in behind it has not."""
    monkeypatch.setattr("shardline.storage.sqlite.lock._NOTE_S", 0.0)
    path, killed = tmp_path / "live" / "bot.db", tmp_path / "killed"
    path.parent.mkdir()
    async with running(open_sqlite(path)) as hand:
        await hand.accept("tg:1", 1)
        execute(path, "PRAGMA wal_checkpoint(TRUNCATE)")
        await hand.accept("tg:1", 2)
        shutil.copytree(path.parent, killed)
        shutil.copytree(path.parent, tmp_path / "whole")
    (killed / "bot.db-wal").unlink()
    (killed / "bot.db-shm").unlink()

    assert await openings(tmp_path / "whole" / "bot.db") == [("store.opened", 2)]
    assert await openings(killed / "bot.db") == [("store.went_back", 2), ("store.opened", 2)]


def test_how_far_a_store_is_is_noted_now_and_then_and_never_over_its_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = OwnerLock.take(tmp_path / "bot.db")
    assert lock.note_opening(Mark(1, 1))
    monkeypatch.setattr("shardline.storage.sqlite.lock._NOTE_S", math.inf)
    lock.note_commit(2)
    assert lock.path.read_text("ascii").split() == ["-", "1", "1"]
    lock.tell(Code.STORE_FULL)
    monkeypatch.setattr("shardline.storage.sqlite.lock._NOTE_S", 0.0)
    lock.note_commit(3)
    assert lock.path.read_text("ascii").split() == ["STORE_FULL", "1", "2"]
    lock.tell(None)
    lock.release()
    assert lock.path.read_text("ascii").split() == ["-", "1", "3"]


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


def run_killed(path: Path, *arguments: str, program: str = KILLED) -> None:
    done = run_forked(Script(program), str(path), *arguments, timeout=30, folder=ROOT)
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
