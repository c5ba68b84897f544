"""The files of a store: private, regular, never a symbolic link."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

import attrs

from ...actors.errors import BusError, Code
from ...actors.system import make_private, open_regular
from ..condition import Moved

_PRIVATE: Final = 0o600
_BESIDE: Final = ("", "-wal", "-shm", "-journal")


Identity = tuple[int, int]
"""Which file it is, whatever its name."""


@attrs.frozen
class Places:
    """Which files an open store has: SQLite goes on with those when another file, or none, is at its path."""

    path: Path
    file: Identity | None
    log: Identity | None
    lock: Identity | None

    @classmethod
    def of(cls, path: Path) -> Places:
        """As they are now."""
        return cls(path, identity(path), identity(_beside(path, "-wal")), identity(_beside(path, ".lock")))

    def moved(self) -> Moved | None:
        """Which of them is no longer at its path; one that was not there is not missed."""
        if self.file is not None and identity(self.path) != self.file:
            return "file"
        if self.lock is not None and identity(_beside(self.path, ".lock")) != self.lock:
            return "lock"
        if self.log is not None and identity(_beside(self.path, "-wal")) != self.log:
            return "log"
        return None


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def identity(path: Path) -> Identity | None:
    """Of the file at a path; None for none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_files(path: Path) -> None:
    """Refuse a store one of whose files is anything but a regular file.

    Raises:
        BusError: UNSAFE_FILESYSTEM.
    """
    for suffix in _BESIDE:
        beside = path.with_name(path.name + suffix)
        try:
            mode = beside.lstat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _unusable(beside, error) from error
        if not stat.S_ISREG(mode):
            raise BusError(Code.UNSAFE_FILESYSTEM, f"{beside} is no regular file", path=str(beside))


def check_only_name(path: Path) -> None:
    """Refuse to own a store whose file has a second name: each name would have a lock and a log of its own.

    Raises:
        BusError: UNSAFE_FILESYSTEM.
    """
    try:
        names = path.lstat().st_nlink
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(path, error) from error
    if names > 1:
        raise BusError(
            Code.UNSAFE_FILESYSTEM,
            f"{path} is one of {names} names of the same file (hard links): another process could open the store "
            "under another name; take the other names away (find -samefile shows them), and back up with a copy",
            path=str(path),
        )


def create_private(path: Path) -> bool:
    """Create an empty file with mode 0600, whatever the umask; SQLite gives its log the same mode.

    Returns:
        False if the file was there.
    Raises:
        BusError: STORE_IO.
    """
    try:
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _PRIVATE)
    except FileExistsError:
        return False
    except OSError as error:
        raise _unusable(path, error) from error
    try:
        make_private(descriptor, _PRIVATE)
    finally:
        os.close(descriptor)
    return True


def open_private(path: Path) -> int:
    """Open or create a file with mode 0600 that no child process inherits over an exec.

    Returns:
        Its descriptor.
    Raises:
        BusError: UNSAFE_FILESYSTEM, a symbolic link or no regular file; STORE_IO.
    """
    try:
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT, _PRIVATE)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.EISDIR, errno.ENXIO}:
            raise BusError(Code.UNSAFE_FILESYSTEM, f"{path} is no regular file", path=str(path)) from error
        raise _unusable(path, error) from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BusError(Code.UNSAFE_FILESYSTEM, f"{path} is no regular file", path=str(path))
        make_private(descriptor, _PRIVATE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def denied(path: Path) -> BusError:
    """This process may not write a store: no disk fails. `advised` in the context: the message says what to do."""
    return BusError(
        Code.STORE_IO,
        f"{path} is read-only for this process: give its user the right to write the file and its folder, on a file "
        "system that is mounted for writing",
        path=str(path),
        advised=True,
    )


def _unusable(path: Path, error: OSError) -> BusError:
    if error.errno in _DENIED:
        return denied(path)
    return BusError(Code.STORE_IO, f"{path} cannot be opened: {error.strerror}", path=str(path))
