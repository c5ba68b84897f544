"""Reading a store at rest without leaving a trace.

SQLite makes `-wal` and `-shm` beside a file in WAL mode that is read while nobody has it open, also through a
connection that cannot write. Files a reader made would stay, and be another user's. So a store that lies there without
them is read through a VFS that shows it as what it then is: one plain file.

That holds while nobody opens the store as its owner. Whoever does makes a `-shm` file first, and can remove it only
while no reader is inside a transaction. So a transaction that still finds no `-shm` at its end was alone: `is_at_rest`
before and after, inside one transaction, is the proof.
"""

# ruff: noqa: N802 (SQLite's own names)

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import apsw

_VFS: Final = "shardline-resting"
_VERSIONS: Final = slice(18, 20)
"""Of the header: the versions of the file format for writing and reading; 2 is WAL, 1 is not."""


def is_at_rest(path: Path) -> bool:
    """Whether nobody has the store open, and all of it stands in its one file."""
    if path.with_name(path.name + "-shm").exists():
        return False
    try:
        return path.with_name(path.name + "-wal").stat().st_size == 0
    except FileNotFoundError:
        return True


def connect_resting(path: Path) -> apsw.Connection:
    """A connection that cannot write and makes no file.

    Raises:
        apsw.Error: the file cannot be opened.
    """
    _register()
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW
    return apsw.Connection(str(path), flags=flags, vfs=_VFS)


class _Vfs(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(_VFS, base="")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:
        return _File(name, flags)


class _File(apsw.VFSFile):
    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        data = super().xRead(amount, offset)
        if offset > _VERSIONS.start or offset + amount < _VERSIONS.stop:
            return data
        shown = bytearray(data)
        if len(shown) >= _VERSIONS.stop - offset:
            shown[_VERSIONS.start - offset : _VERSIONS.stop - offset] = b"\x01\x01"
        return bytes(shown)


@cache
def _register() -> _Vfs:
    # Once a process: a VFS serves as long as its object lives.
    return _Vfs()
