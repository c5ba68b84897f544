"""A consistent copy of a store file, taken beside its owner."""

from __future__ import annotations

from pathlib import Path

import apsw

from .files import create_private


def copy_store(source: Path, target: Path) -> None:
    """Copy what is committed, as a kill would leave it, through SQLite's backup API.

    Args:
        source: A store file; its owner may be writing.
        target: A file that is not there yet; it gets mode 0600.
    Raises:
        apsw.Error: the source cannot be read.
        BusError: UNSAFE_FILESYSTEM, STORE_IO: the target cannot be made.
    """
    create_private(target)
    reader = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)
    copy = apsw.Connection(str(target))
    try:
        with copy.backup("main", reader, "main") as backup:
            backup.step()
    finally:
        copy.close()
        reader.close()
