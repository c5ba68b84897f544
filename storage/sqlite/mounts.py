"""Which kind of file system a store lies on, and whether its log is safe there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from ...actors.errors import BusError, Code

_MOUNTS = Path("/proc/self/mounts")
_OCTAL = re.compile(r"\\([0-7]{3})")

UNSAFE_FILE_SYSTEMS: Final = frozenset(
    {
        "9p", "afs", "ceph", "cifs", "gfs2", "lustre", "ncpfs", "nfs", "nfs4", "prl_fs", "smb2", "smb3", "smbfs",
        "vboxsf", "virtiofs",
    }
)  # fmt: skip
"""Where shared memory or locks do not work as SQLite's log needs them."""


def is_unsafe(kind: str) -> bool:
    """Whether a store must not lie on this kind of file system; of `fuse`, only real disks (`fuseblk`) are safe."""
    return kind in UNSAFE_FILE_SYSTEMS or kind == "fuse" or kind.startswith("fuse.")


def check_file_system(path: Path, *, is_allowed: bool) -> None:
    """Refuse a store on a file system that breaks it sooner or later, or say so where it is allowed.

    A kind that cannot be told is let pass.

    Raises:
        BusError: UNSAFE_FILESYSTEM.
    """
    kind = file_system_of(path)
    if kind is None or not is_unsafe(kind):
        return
    if not is_allowed:
        raise BusError(
            Code.UNSAFE_FILESYSTEM,
            f"{path} lies on {kind}, where a write-ahead log breaks: move it to a local disk, or allow it on your own"
            " risk (--allow-unsafe-filesystem)",
            path=str(path),
            kind=kind,
        )
    # Here, for it takes a tenth of a second to load: a look into a store has nothing to log.
    import structlog  # noqa: PLC0415

    log: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    log.warning("store.unsafe_allowed", path=str(path), kind=kind, bus_error_code=Code.UNSAFE_FILESYSTEM)


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


__all__ = ["UNSAFE_FILE_SYSTEMS", "check_file_system", "file_system_of", "is_unsafe", "kind_in"]
