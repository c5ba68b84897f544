import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from shardline.actors.errors import Code
from shardline.storage.sqlite import open_sqlite, owner
from shardline.storage.sqlite.lock import OwnerLock
from shardline.storage.sqlite.look import Look
from shardline.storage.sqlite.owner import Opening, find_lock, find_owner, read_openings
from tests.kits.stores import running

LISTING = """\
1: POSIX  ADVISORY  WRITE 11 fe:00:500 0 EOF
2: FLOCK  ADVISORY  WRITE 12 fe:00:501 0 EOF
2: -> FLOCK  ADVISORY  WRITE 13 fe:00:502 0 EOF
3: FLOCK  ADVISORY  WRITE -1 fe:00:503 0 EOF
4: FLOCK  ADVISORY  WRITE 14 00:1f:504 0 EOF
short
"""
COPY = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2])"
LAST = Opening(instance=1, host="h", pid=14, opened_at_us=1, closed_at_us=None, clean=False)


@pytest.mark.parametrize(
    ("inode", "last", "pid"),
    [
        (500, None, None),
        (501, None, 12),
        (502, None, None),
        (503, None, 0),
        (504, None, None),
        (504, LAST, 14),
        (50, None, None),
    ],
)
def test_a_lock_is_found_by_its_file(inode: int, last: Opening | None, pid: int | None) -> None:
    assert find_lock(LISTING, (0xFE, 0), inode, last) == pid


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not list locks")
def test_what_an_owner_says_beside_its_store_is_believed_while_it_holds_the_lock(tmp_path: Path) -> None:
    store = tmp_path / "bot.db"
    lock = OwnerLock.take(store)
    assert find_owner(store, None).trouble is None
    lock.tell(Code.STORE_FULL)
    told = find_owner(store, None).trouble
    assert told is not None
    assert told.code is Code.STORE_FULL
    assert abs(told.since_us / 1_000_000 - time.time()) < 3_600
    lock.release()
    assert find_owner(store, None).trouble is None
    # What an owner that was killed has left there is not the next one's.
    lock = OwnerLock.take(store)
    assert find_owner(store, None).trouble is None
    lock.path.write_bytes(b"nonsense \xff")
    assert find_owner(store, None).trouble is None
    lock.release()


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not list locks")
def test_a_lock_that_is_held_is_seen_and_stays_free_to_take_when_it_is_not(tmp_path: Path) -> None:
    store = tmp_path / "bot.db"
    assert find_owner(store, None).held == "no"
    with (tmp_path / "bot.db.lock").open("wb") as lock:
        assert find_owner(store, None).held == "no"
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = find_owner(store, None)

    assert (found.held, found.holder_pid) == ("yes", os.getpid())
    assert find_owner(store, None).held == "no"


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="this system does not list locks")
async def test_an_owner_whose_lock_file_was_deleted_is_seen_all_the_same_and_a_copy_has_none(
    tmp_path: Path,
) -> None:
    """Whoever read that the bot has crashed would start a second one, and nothing would stop that."""
    store, copy = tmp_path / "live" / "bot.db", tmp_path / "copy" / "bot.db"
    store.parent.mkdir()
    async with running(open_sqlite(store)) as hand:
        await hand.accept("tg:1", 1)
        store.with_name("bot.db.lock").unlink()
        # Not in this process: it would lose its locks with the first of the files that it closes.
        await trio.run_process([sys.executable, "-c", COPY, str(store.parent), str(copy.parent)])
        opening = last_opening(store)
        found = find_owner(store, opening)
        assert (found.held, found.holder_pid) == ("yes", os.getpid())
        assert find_owner(copy, opening).held == "no"
    assert find_owner(store, last_opening(store)).held == "no"
    assert find_owner(store, opening).held == "no"


def last_opening(store: Path) -> Opening:
    with Look(store) as look:
        return look.read(lambda db: read_openings(db, 1))[0]


def test_where_locks_are_not_listed_it_is_guessed_from_the_last_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "_LOCKS", tmp_path / "none")
    (tmp_path / "bot.db.lock").touch()
    host = os.uname().nodename
    child = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    gone = int(child.stdout)
    for pid, host_name, closed, held in (
        (gone, host, None, "no"),
        (os.getpid(), host, None, "unknown"),
        (os.getpid(), host, 7, "no"),
        (gone, "elsewhere", None, "unknown"),
    ):
        last = Opening(instance=1, host=host_name, pid=pid, opened_at_us=1, closed_at_us=closed, clean=False)

        assert find_owner(tmp_path / "bot.db", last).held == held
    assert find_owner(tmp_path / "bot.db", None).held == "no"
