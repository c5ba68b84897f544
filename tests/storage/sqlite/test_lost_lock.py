"""A lock file deleted under its owner lets no second owner in; nothing but that owner keeps a start waiting."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import apsw
import pytest

from shardline.actors.errors import BusError, Code
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.upgrade import upgrade_file
from tests.kits.reaped import reaped
from tests.kits.stores import running

pytestmark = pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not list locks")

OWNER: Final = """
import sys, structlog, trio
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
from shardline.storage.sqlite import open_sqlite
async def main():
    store = open_sqlite(sys.argv[1])
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        print("up", flush=True)
trio.run(main)
"""
READER: Final = """
import sys, apsw
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READONLY)
print(connection.execute("SELECT count(*) FROM inbox").fetchall(), flush=True)
sys.stdin.read()
"""


def start(code: str, store: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    return reaped(
        subprocess.Popen(
            [sys.executable, "-c", code, str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    )


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


async def opens(store: Path) -> None:
    async with running(open_sqlite(store)):
        pass


async def test_a_second_owner_stays_out_until_the_first_is_dead(tmp_path: Path) -> None:
    store = tmp_path / "bot.db"
    await opens(store)
    with start(OWNER, store) as owner:
        assert read_line(owner) == "up\n"
        (tmp_path / "bot.db.lock").unlink()
        # Twice: the first look leaves a lock file of its own.
        for _ in range(2):
            with pytest.raises(BusError, match="lock file was moved or deleted") as refused:
                open_sqlite(store)
            assert refused.value.code is Code.STORE_LOCKED
            assert str(owner.pid) in str(refused.value)
        with pytest.raises(BusError) as refused:
            upgrade_file(store, 1)
        assert refused.value.code is Code.STORE_LOCKED
        owner.kill()
        owner.wait()
        await opens(store)


async def test_a_second_owner_in_the_same_process_stays_out_too(tmp_path: Path) -> None:
    store = tmp_path / "bot.db"
    async with running(open_sqlite(store)) as hand:
        await hand.accept("tg:1", 1)
        (tmp_path / "bot.db.lock").unlink()
        with pytest.raises(BusError) as refused:
            open_sqlite(store)
        assert refused.value.code is Code.STORE_LOCKED
        await hand.accept("tg:1", 2)
    await opens(store)


async def test_a_reader_that_has_the_number_of_a_killed_owner_keeps_nobody_waiting(tmp_path: Path) -> None:
    """In a container the numbers of processes come again: what read the store may be what owned it the last time."""
    store = tmp_path / "bot.db"
    await opens(store)
    with start(READER, store) as reader:
        assert read_line(reader) == "[(0,)]\n"
        database = apsw.Connection(str(store))
        database.execute(
            "UPDATE instance SET pid = ?, closed_at = NULL, clean = 0, opened_at = opened_at - 60000000",
            (reader.pid,),
        )
        database.close()
        await opens(store)
