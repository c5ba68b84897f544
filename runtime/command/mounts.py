"""Which kind of file system a path lies on."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")
_OCTAL = re.compile(r"\\([0-7]{3})")


def file_system_of(path: Path) -> str | None:
    """The kind of file system, such as `ext4`; None where the system does not tell."""
    try:
        mounts = _MOUNTS.read_text("utf-8", "replace")
    except OSError:
        return None
    return kind_in(mounts, os.path.realpath(path))


def kind_in(mounts: str, path: str) -> str | None:
    """Find a path's file system in what Linux lists.

    Args:
        mounts: `<device> <mount point> <kind> …` a line, blanks as `\\040`; later lines hide earlier ones.
        path: Absolute, without links.
    """
    best, found = -1, None
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), words[1])
        inside = point.rstrip("/") + "/"
        if (path == point or path.startswith(inside)) and len(inside) >= best:
            best, found = len(inside), words[2]
    return found


__all__ = ["file_system_of", "kind_in"]
