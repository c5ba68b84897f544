"""What a store's owner says beside the store, in the lock file: what keeps it from writing, and how far the store is.

On a full disk, or while somebody else holds the write lock, it cannot say so in the store itself. The lock file gets a
line of a fixed length when it is locked, which is overwritten in place later and needs no room. The trouble is believed
only while the lock is held, so what a crash leaves there says nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import attrs

from ...actors.errors import Code
from ...actors.system import read_at, write_at

_LINE_BYTES: Final = 64
_NONE: Final = "-"


@attrs.frozen
class Trouble:
    """Why the owner of a store writes nothing.

    Attributes:
        code: STORE_FULL, STORE_BUSY, or STORE_IO while a commit is tried again.
        since_us: Microseconds since 1970 UTC.
    """

    code: Code
    since_us: int


@attrs.frozen
class Mark:
    """How far a store was, for sure.

    Attributes:
        instance: Number of an opening; 0 for none.
        commit_seq: Number of a commit, 0 where none was noted: a copy that was made later in the same opening has
            the opening, and not what came after it.
    """

    instance: int = 0
    commit_seq: int = 0

    def is_behind(self, later: Mark) -> bool:
        """Whether `later` can be the next opening of this very store."""
        return later.instance > self.instance and later.commit_seq > self.commit_seq


def write_line(descriptor: int, code: Code | None, mark: Mark) -> None:
    """Write the line of an open lock file.

    Args:
        descriptor: Of the file.
        code: What keeps the owner from writing; None for nothing.
        mark: How far it is.
    Raises:
        OSError: it cannot be written.
    """
    line = f"{_NONE if code is None else code.value} {mark.instance} {mark.commit_seq}"
    write_at(descriptor, f"{line:<{_LINE_BYTES - 1}}\n".encode("ascii"), 0)


def read_mark(descriptor: int) -> Mark:
    """What an open lock file tells of the last opening.

    Raises:
        OSError: it cannot be read.
    """
    return _parsed(read_at(descriptor, _LINE_BYTES, 0))[1]


def read_trouble(path: Path) -> Trouble | None:
    """What a lock file says; None for no trouble, and for one that says nothing or cannot be read."""
    try:
        with path.open("rb") as file:
            line = file.read(_LINE_BYTES)
            since_ns = os.fstat(file.fileno()).st_mtime_ns
    except OSError:
        return None
    code, _ = _parsed(line)
    return None if code is None else Trouble(code, since_ns // 1_000)


def _parsed(line: bytes) -> tuple[Code | None, Mark]:
    words = line.decode("ascii", "replace").split()
    if len(words) != 3 or not (words[1].isdecimal() and words[2].isdecimal()):
        return None, Mark()
    code = Code(words[0]) if words[0] in Code.__members__ else None
    return code, Mark(int(words[1]), int(words[2]))


__all__ = ["Mark", "Trouble", "read_mark", "read_trouble", "write_line"]
