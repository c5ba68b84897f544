"""One store has one owner."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from shardline.actors.errors import BusError, Code
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.lock import OwnerLock
from tests.kits.forked import Script, start_forked
from tests.kits.store_checks import check_store
from tests.kits.stores import running
from tests.kits.words import refused

OWNER = """
import sys
import trio
from shardline.storage.sqlite import open_sqlite

async def main():
    store = open_sqlite(sys.argv[1])
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        print("open", flush=True)
        sys.stdin.read()
        nursery.cancel_scope.cancel()

trio.run(main)
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


async def test_second_owner_in_the_same_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    async with running(open_sqlite(path)) as hand:
        before = contents(tmp_path)
        for shard_count in (16, 4):
            with refused(Code.STORE_LOCKED):
                open_sqlite(path, shard_count=shard_count)

        assert contents(tmp_path) == before
        await hand.accept("tg:1", 1)
    async with running(open_sqlite(path)):
        pass
    check_store(path)


async def test_an_owner_that_starts_outwaits_a_short_one_and_a_visitor_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short one goes when somebody waits for it."""
    path, waits = tmp_path / "bot.db", list[float]()
    lock = OwnerLock.take(path)

    def wait(wait_s: float) -> None:
        waits.append(wait_s)
        lock.release()

    monkeypatch.setattr("shardline.storage.sqlite.lock.time.sleep", wait)
    with refused(Code.STORE_LOCKED):
        open_sqlite(path, recovers=False)
    assert waits == []
    async with running(open_sqlite(path)) as hand:
        await hand.accept("tg:1", 1)
    assert len(waits) == 1


async def test_second_process_is_refused_at_once_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    with start_forked(Script(OWNER), str(path)) as owner:
        assert any("open" in line for line in owner.stdout)
        before = contents(tmp_path)
        took_s: list[float] = []
        for _ in range(3):  # any of them may have waited for the processor
            began_s = time.monotonic()
            with refused(Code.STORE_LOCKED):
                open_sqlite(path)
            took_s.append(time.monotonic() - began_s)

        assert min(took_s) < 1.0
        assert contents(tmp_path) == before
        owner.stdin.close()
        assert owner.wait(20) == 0
    async with running(open_sqlite(path)) as hand:
        assert hand.store.info.instance == 2
        assert hand.store.info.clean


async def test_store_that_never_ran_gives_its_lock_back(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "bot.db")
    store.close()
    store.close()
    with refused(Code.BUS_CLOSED):
        await store.run()
    async with running(open_sqlite(tmp_path / "bot.db")) as hand:
        assert hand.store.info.clean


def test_lock_is_released_once(tmp_path: Path) -> None:
    lock = OwnerLock.take(tmp_path / "bot.db")
    lock.release()
    lock.release()
    again = OwnerLock.take(tmp_path / "bot.db")
    with pytest.raises(BusError):
        OwnerLock.take(tmp_path / "bot.db")
    again.release()


def test_lock_is_not_kept_by_a_forked_child(tmp_path: Path) -> None:
    """The owner dies; its child, which never asked for the store, lives on."""
    lock = OwnerLock.take(tmp_path / "bot.db")
    held, hold = os.pipe()
    born, birth = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(hold)
        os.write(birth, b"1")
        os.read(held, 1)
        os._exit(0)
    try:
        os.read(born, 1)
        lock.forget()
        OwnerLock.take(tmp_path / "bot.db").release()
    finally:
        os.close(hold)
        os.waitpid(child, 0)
        for descriptor in (held, born, birth):
            os.close(descriptor)


def test_release_counts_even_if_a_child_holds_a_copy(tmp_path: Path) -> None:
    lock = OwnerLock.take(tmp_path / "bot.db")
    (descriptor,) = [int(name) for name in os.listdir("/proc/self/fd") if is_open_at(name, lock.path)]
    copy = os.dup(descriptor)
    lock.release()
    try:
        OwnerLock.take(tmp_path / "bot.db").release()
    finally:
        os.close(copy)


def is_open_at(name: str, path: Path) -> bool:
    try:
        return Path(f"/proc/self/fd/{name}").readlink() == path
    except OSError:
        return False
