"""Whether a store is sound: integrity, its clock, the files beside it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, cast

import apsw
import attrs

from ...actors.system import HAS_MODES
from .look import Look

_WAL_VERSION: Final = 2
_BESIDE: Final = ("", "-wal", "-shm", ".lock")


@attrs.frozen
class OpenFile:
    """A file of the store that others than its owner may read or write."""

    path: Path
    mode: int


def integrity(look: Look, *, is_full: bool) -> list[str]:
    """What SQLite finds wrong with the file, at most ten lines; empty if nothing.

    Args:
        is_full: Compare every index with its table too.
    """
    pragma = "integrity_check" if is_full else "quick_check"
    rows = look.read(lambda db: db.execute(f"PRAGMA {pragma}(10)").fetchall())
    return [text for (text,) in cast("list[tuple[str]]", rows) if text != "ok"]


def newest_time(look: Look) -> int | None:
    """The latest moment that the store knows, microseconds since 1970 UTC."""
    rows = look.read(
        lambda db: db.execute(
            "SELECT max(at) FROM (SELECT max(opened_at) AS at FROM instance UNION ALL"
            " SELECT max(closed_at) FROM instance UNION ALL"
            " SELECT at FROM (SELECT at FROM history ORDER BY id DESC LIMIT 1))"
        ).fetchall()
    )
    return cast("int | None", rows[0][0])


def is_wal(path: Path) -> bool:
    """Whether the file is in WAL mode; read through SQLite, whose locks another reading would drop.

    Raises:
        apsw.Error: it cannot be read.
    """
    file = apsw.VFSFile(
        "",
        str(path.parent.resolve() / path.name),
        [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_NOFOLLOW, 0],
    )
    try:
        return file.xRead(2, 18) == bytes([_WAL_VERSION, _WAL_VERSION])
    finally:
        file.xClose()


def log_bytes(path: Path) -> int:
    """Length of the write-ahead log; 0 without one."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0


def open_files(path: Path) -> list[OpenFile]:
    """Files of the store, and copies of it, with more than mode 0600; none where files have no mode."""
    if not HAS_MODES:
        return []
    beside = [path.with_name(path.name + suffix) for suffix in _BESIDE]
    found: list[OpenFile] = []
    for file in [*beside, *sorted(path.parent.glob(f"{_escaped(path.name)}.schema-*.backup"))]:
        try:
            mode = stat.S_IMODE(os.lstat(file).st_mode)
        except FileNotFoundError:
            continue
        if mode & 0o177:
            found.append(OpenFile(file, mode))
    return found


def _escaped(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
