"""What not every operating system has: the one module that asks for it, and does something else where it is missing.

Nothing else imports `fcntl` and the like, or names a signal, a flag or a call that one system lacks; a test guards it.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import select
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, cast


class _Fcntl(Protocol):
    """The part of `fcntl` that is used; POSIX."""

    LOCK_EX: int
    LOCK_NB: int
    LOCK_UN: int

    def flock(self, fd: int, operation: int, /) -> None: ...
    def fcntl(self, fd: int, cmd: int, /) -> int: ...


class _Msvcrt(Protocol):
    """The part of `msvcrt` that is used; Windows."""

    LK_NBLCK: int
    LK_UNLCK: int

    def locking(self, fd: int, mode: int, nbytes: int, /) -> None: ...


def _module(name: str) -> object | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def _flag(name: str) -> int:
    found: int = getattr(os, name, 0)
    return found


_fcntl: Final = cast("_Fcntl | None", _module("fcntl"))
_msvcrt: Final = cast("_Msvcrt | None", _module("msvcrt"))
_full_sync: Final[int | None] = getattr(_fcntl, "F_FULLFSYNC", None)

HAS_MODES: Final = os.name == "posix"
"""Whether a file's mode says who may read it; elsewhere its folder does."""

NEEDS_FULL_SYNC: Final = _full_sync is not None
"""Whether a plain sync stops at the drive's own cache, as on macOS."""

_NOFOLLOW: Final = _flag("O_NOFOLLOW")
# What no child process inherits: O_NOINHERIT is its name on Windows, where a file is text unless it is said.
_ALWAYS: Final = (
    _NOFOLLOW | _flag("O_CLOEXEC") | _flag("O_NOINHERIT") | _flag("O_NONBLOCK") | _flag("O_BINARY")
)
# Windows keeps others from reading what is locked: a byte far behind every file's end.
_LOCKED_BYTE: Final = 1 << 40


def open_regular(path: Path, flags: int, mode: int) -> int:
    """Open a file that no child process inherits; never through a symbolic link, never waiting for a pipe.

    Args:
        path: The file.
        flags: Of `os.open`, such as `os.O_RDWR | os.O_CREAT`.
        mode: Of a file that is made.
    Raises:
        OSError: ELOOP for a link, and what `os.open` raises.
    """
    if not _NOFOLLOW and path.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return os.open(path, flags | _ALWAYS, mode)


def make_private(descriptor: int, mode: int) -> None:
    """Set an open file's mode, whatever the umask; nothing where files have none."""
    change: Callable[[int, int], None] | None = getattr(os, "fchmod", None)
    if change is not None:
        change(descriptor, mode)


def lock_file(descriptor: int) -> None:
    """Lock an open file for this process alone, at once; the system unlocks it when the process ends.

    Raises:
        BlockingIOError: somebody has it.
        OSError: it cannot be locked; ENOLCK where the system has no locks at all.
    """
    if _fcntl is not None:
        _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    elif _msvcrt is not None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            _msvcrt.locking(descriptor, _msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EDEADLK}:
                raise BlockingIOError(errno.EAGAIN, "somebody has it") from error
            raise
    else:
        raise OSError(errno.ENOLCK, "this system has no file locks")


def unlock_file(descriptor: int) -> None:
    """Give a lock back that `lock_file` took."""
    if _fcntl is not None:
        _fcntl.flock(descriptor, _fcntl.LOCK_UN)
    elif _msvcrt is not None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        _msvcrt.locking(descriptor, _msvcrt.LK_UNLCK, 1)


def sync_file(descriptor: int) -> None:
    """Bring what was written to the disk itself, past the cache of the drive where the system can say so."""
    if _full_sync is not None and _fcntl is not None:
        try:
            _fcntl.fcntl(descriptor, _full_sync)
        except OSError as error:
            # Not every file system knows it.
            if error.errno not in {errno.ENOTSUP, errno.EINVAL, errno.ENOTTY}:
                raise
        else:
            return
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Bring a new file's name to the disk; Windows does it with the file, and opens no folder."""
    directory = _flag("O_DIRECTORY")
    if not directory:
        return
    descriptor = os.open(folder, os.O_RDONLY | directory | _flag("O_CLOEXEC"))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_at(descriptor: int, count: int, offset: int) -> bytes:
    """Read at most so many bytes from a place of a file. Without `pread` its position moves."""
    read: Callable[[int, int, int], bytes] | None = getattr(os, "pread", None)
    if read is not None:
        return read(descriptor, count, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, count)


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Write bytes to a place of a file. Without `pwrite` its position moves."""
    write: Callable[[int, bytes, int], int] | None = getattr(os, "pwrite", None)
    if write is not None:
        write(descriptor, data, offset)
        return
    os.lseek(descriptor, offset, os.SEEK_SET)
    os.write(descriptor, data)


def say_at_once(descriptor: int, data: bytes) -> None:
    """Write where somebody reads and there is room: who reads no more holds nobody up."""
    with contextlib.suppress(OSError, ValueError):
        # Windows asks that of sockets alone.
        if os.name != "posix" or select.select((), (descriptor,), (), 0)[1]:
            os.write(descriptor, data)


def after_fork_in_child(callback: Callable[[], None]) -> None:
    """Call it in every process that is forked from this one; nothing where no process is."""
    register: Callable[..., None] | None = getattr(os, "register_at_fork", None)
    if register is not None:
        register(after_in_child=callback)


def is_running(pid: int) -> bool | None:
    """Whether a process of this machine lives; None where it cannot be told.

    Its number may be another process's by now.
    """
    if os.name != "posix":
        # There 0 is no question but a signal, Ctrl+C.
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def started_at_us(pid: int) -> int | None:
    """When a process of this machine began, by the wall clock of now, to about a second; None if it cannot be told."""
    sysconf: Callable[[str], int] | None = getattr(os, "sysconf", None)
    if sysconf is None:
        return None
    try:
        # The program's name, in brackets, may hold anything.
        words = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        lines = Path("/proc/stat").read_text("ascii", "replace").splitlines()
        [boot_s] = [int(line.split()[1]) for line in lines if line.startswith("btime ")]
        return boot_s * 1_000_000 + int(words[19]) * 1_000_000 // sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def stopping_signals() -> list[signal.Signals]:
    """What asks a program to stop: SIGINT and SIGTERM; SIGHUP unless somebody (`nohup`) has it ignored; Ctrl+Break."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) is signal.SIG_DFL:
        numbers.append(hangup)
    ctrl_break: signal.Signals | None = getattr(signal, "SIGBREAK", None)
    if ctrl_break is not None:
        numbers.append(ctrl_break)
    return numbers


def kill_this_process() -> None:
    """End it where it stands: SIGKILL, or what comes nearest; nothing is closed or written."""
    # Windows ends a process at once for any number but those of Ctrl+C and Ctrl+Break.
    hardest: signal.Signals = getattr(signal, "SIGKILL", signal.SIGTERM)
    os.kill(os.getpid(), hardest)


__all__ = [
    "HAS_MODES",
    "NEEDS_FULL_SYNC",
    "after_fork_in_child",
    "is_running",
    "kill_this_process",
    "lock_file",
    "make_private",
    "open_regular",
    "read_at",
    "say_at_once",
    "started_at_us",
    "stopping_signals",
    "sync_file",
    "sync_folder",
    "unlock_file",
    "write_at",
]
