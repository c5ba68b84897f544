"""What is done where a system lacks a call."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import apsw
import pytest

from shardline.actors import system
from shardline.storage.sqlite import open_sqlite


class DarwinFcntl:
    """`fcntl` as macOS has it; `knows` whether the file system can do a full sync."""

    F_FULLFSYNC = 51

    def __init__(self, *, knows: bool) -> None:
        self.knows = knows
        self.calls: list[int] = []

    def fcntl(self, fd: int, cmd: int, /) -> int:
        self.calls.append(cmd)
        if not self.knows:
            raise OSError(errno.ENOTSUP, "not supported")
        return 0


@pytest.mark.parametrize(("knows", "plain"), [(True, 0), (False, 1)])
def test_a_full_sync_falls_back_to_a_plain_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, knows: bool, plain: int
) -> None:
    synced: list[int] = []
    darwin = DarwinFcntl(knows=knows)
    monkeypatch.setattr(system, "_fcntl", darwin)
    monkeypatch.setattr(system, "_full_sync", DarwinFcntl.F_FULLFSYNC)
    monkeypatch.setattr(os, "fsync", synced.append)
    with (tmp_path / "a").open("wb") as file:
        system.sync_file(file.fileno())

    assert darwin.calls == [DarwinFcntl.F_FULLFSYNC]
    assert len(synced) == plain


@pytest.mark.parametrize(
    ("needs", "durability", "wanted"), [(True, "full", 1), (True, "normal", 0), (False, "full", 0)]
)
async def test_sqlite_syncs_past_the_drives_cache_where_a_plain_sync_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, needs: bool, durability: str, wanted: int
) -> None:
    monkeypatch.setattr(system, "NEEDS_FULL_SYNC", needs)
    made: list[apsw.Connection] = []
    apsw.connection_hooks.append(made.append)
    try:
        store = open_sqlite(
            tmp_path / "bot.db", mode="inline", durability="full" if durability == "full" else "normal"
        )
        found = {connection.pragma("fullfsync") for connection in made if not connection.readonly("main")}
        store.close()
    finally:
        apsw.connection_hooks.remove(made.append)

    assert found == {wanted}


def test_reading_at_a_place_works_without_pread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pread")
    (tmp_path / "a").write_bytes(b"0123456789")
    with (tmp_path / "a").open("rb") as file:
        assert system.read_at(file.fileno(), 3, 4) == b"456"


def test_a_process_that_is_gone_is_told_from_one_that_lives() -> None:
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)

    assert system.is_running(pid) is False
    assert system.is_running(os.getpid()) is True
    assert system.is_running(1) is True
