"""Files are private and regular, whatever the umask and whoever was there before."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from pathlib import Path

import apsw
import pytest

from shardline.actors.errors import BusError, Code
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.upgrade import upgrade_file
from tests.kits.faulty_vfs import Fault, FaultyVfs
from tests.kits.stores import running
from tests.kits.words import refused


@pytest.fixture(params=[0o000, 0o022, 0o277])
def umask(request: pytest.FixtureRequest) -> Generator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


@pytest.mark.usefixtures("umask")
async def test_files_have_mode_0600(tmp_path: Path) -> None:
    async with running(open_sqlite(tmp_path / "bot.db")) as hand:
        await hand.accept("tg:1", 1)
        modes = modes_in(tmp_path)

    assert modes == dict.fromkeys(["bot.db", "bot.db-wal", "bot.db-shm", "bot.db.lock"], 0o600)


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal", ".lock"])
@pytest.mark.parametrize("dangling", [True, False])
async def test_symbolic_link_is_refused(tmp_path: Path, suffix: str, dangling: bool) -> None:
    path = tmp_path / "bot.db"
    target = tmp_path / "elsewhere"
    if not dangling:
        target.write_bytes(b"precious")
    path.with_name(path.name + suffix).symlink_to(target)
    with refused(Code.UNSAFE_FILESYSTEM):
        open_sqlite(path)

    assert target.exists() is not dangling
    assert dangling or target.read_bytes() == b"precious"


@pytest.mark.parametrize("suffix", ["", ".lock"])
async def test_folder_and_pipe_are_refused(tmp_path: Path, suffix: str) -> None:
    folder = tmp_path / "folder.db"
    folder.with_name(folder.name + suffix).mkdir()
    pipe = tmp_path / "pipe.db"
    os.mkfifo(pipe.with_name(pipe.name + suffix))
    for path in (folder, pipe):
        with refused(Code.UNSAFE_FILESYSTEM):
            open_sqlite(path)


async def test_a_second_name_of_the_same_file_is_refused(tmp_path: Path) -> None:
    """Under each name there is a lock and a log of its own, so the lock would let a second owner in."""
    path, second = tmp_path / "bot.db", tmp_path / "other.db"
    async with running(open_sqlite(path)) as hand:
        await hand.accept("tg:1", 1)
        os.link(path, second)
        with refused(Code.UNSAFE_FILESYSTEM):
            open_sqlite(second)
        with refused(Code.UNSAFE_FILESYSTEM):
            upgrade_file(second, 0)
        await hand.accept("tg:1", 2)
    second.unlink()
    async with running(open_sqlite(path)) as hand:
        await hand.accept("tg:1", 3)


async def test_missing_folder_is_a_typed_error(tmp_path: Path) -> None:
    with refused(Code.STORE_IO):
        open_sqlite(tmp_path / "nowhere" / "bot.db")


async def test_a_store_that_may_not_be_written_is_no_failing_disk(tmp_path: Path) -> None:
    """Root may write whatever stands in a mode, so SQLite is told by a file system of its own."""
    async with running(open_sqlite(tmp_path / "bot.db")) as hand:
        await hand.accept("tg:1", 1)
    before = (tmp_path / "bot.db").read_bytes()
    vfs = FaultyVfs("read-only")
    try:
        vfs.arm(Fault("write", suffix="", count=None, error=apsw.ReadOnlyError))
        with pytest.raises(BusError, match="give its user the right to write") as caught:
            open_sqlite(tmp_path / "bot.db", vfs=vfs.name)
    finally:
        vfs.unregister()

    assert caught.value.code is Code.STORE_IO
    assert caught.value.context["advised"] is True
    assert (tmp_path / "bot.db").read_bytes() == before


async def test_clean_end_leaves_one_file_and_its_lock(tmp_path: Path) -> None:
    for name in ("a", "b"):
        async with running(open_sqlite(tmp_path / "bot.db")) as hand:
            await hand.enqueue("tg:1", name)

    assert sorted(modes_in(tmp_path)) == ["bot.db", "bot.db.lock"]
