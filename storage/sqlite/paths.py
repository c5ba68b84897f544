"""What a path must be before a store is opened at it: SQLite names its files in UTF-8, up to a null character."""

from __future__ import annotations

import os
from pathlib import Path

from ...actors.errors import BusError, Code
from ...actors.names import shown
from ...actors.text import has_lone_surrogate


def store_path(path: str | os.PathLike[str]) -> Path:
    """The path of a store; nothing is touched.

    Raises:
        BusError: INVALID_MESSAGE, no file can have it, or its name or a folder's is no UTF-8.
    """
    found = Path(path)
    text = str(found.absolute())
    if not found.name or "\0" in text:
        raise BusError(Code.INVALID_MESSAGE, f"{shown(str(path))} names no file: give the path of a store")
    if has_lone_surrogate(text):
        raise BusError(
            Code.INVALID_MESSAGE,
            f"the path {shown(text)} is no UTF-8, and a store's must be: rename the file or its folder",
        )
    return found


__all__ = ["store_path"]
