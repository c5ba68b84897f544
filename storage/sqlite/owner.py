"""Who has a store open, found out without touching its lock."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final, Literal, cast

import apsw
import attrs

from ...actors.system import is_running, started_at_us
from .trouble import Trouble, read_trouble

_LOCKS: Final = Path("/proc/locks")

_CLOCK_US: Final = 3_000_000
"""How far the system's word on when a process began may be off."""

Held = Literal["yes", "no", "unknown"]


@attrs.frozen(kw_only=True)
class Opening:
    """One opening of a store, as it noted itself. Times are microseconds since 1970 UTC."""

    instance: int
    host: str
    pid: int
    opened_at_us: int
    closed_at_us: int | None
    clean: bool


@attrs.frozen(kw_only=True)
class Owner:
    """Whether somebody owns the store now, and what the last opening noted.

    Attributes:
        held: The lock is held; `unknown` where the system does not tell.
        holder_pid: Process that holds the lock, where the system tells.
        trouble: What keeps the owner from writing, as it says beside the store.
    """

    held: Held
    holder_pid: int | None
    last: Opening | None
    trouble: Trouble | None = None


def read_openings(connection: apsw.Connection, limit: int) -> list[Opening]:
    """The last openings, the newest first."""
    rows = connection.execute(
        "SELECT id, host, pid, opened_at, closed_at, clean FROM instance ORDER BY id DESC LIMIT ?", (limit,)
    ).fetchall()
    return [
        Opening(
            instance=instance, host=host, pid=pid, opened_at_us=opened, closed_at_us=closed, clean=bool(clean)
        )
        for instance, host, pid, opened, closed, clean in cast(
            "list[tuple[int, str, int, int, int | None, int]]", rows
        )
    ]


def find_owner(store: Path, last: Opening | None) -> Owner:
    """Whether the store has an owner.

    Args:
        store: Its file.
        last: Its last opening.
    """
    path = store.with_name(store.name + ".lock")
    try:
        lock = path.stat()
    except FileNotFoundError:
        # Nobody has it, or it was deleted under its owner, which has the log's index open all the same.
        if last is not None and _has_open(store, last):
            return Owner(held="yes", holder_pid=last.pid, last=last)
        return Owner(held="no", holder_pid=None, last=last)
    except OSError:
        return Owner(held="unknown", holder_pid=None, last=last)
    try:
        locks = _LOCKS.read_text("ascii", "replace")
    except OSError:
        held = _guess(last)
        return Owner(
            held=held, holder_pid=None, last=last, trouble=None if held == "no" else read_trouble(path)
        )
    pid = find_lock(locks, (os.major(lock.st_dev), os.minor(lock.st_dev)), lock.st_ino, last)
    if pid is None:
        return Owner(held="no", holder_pid=None, last=last)
    return Owner(held="yes", holder_pid=pid or None, last=last, trouble=read_trouble(path))


def is_owned_without_lock(store: Path, last: Opening) -> bool:
    """Whether the last opening lives on, in a process that may have lost the lock file under it.

    It says yes only where all of it speaks for that: a killed owner has no locks, and where the numbers of processes
    repeat, one that began after the opening (it may read the store) is another one.
    """
    if last.host != socket.gethostname() or not _has_open(store, last):
        return False
    began_us = started_at_us(last.pid)
    return began_us is not None and began_us <= last.opened_at_us + _CLOCK_US


def _has_open(store: Path, last: Opening) -> bool:
    """Whether the process of the last opening has the index of this very store's log locked, as SQLite does."""
    try:
        index = store.with_name(store.name + "-shm").stat()
        locks = _LOCKS.read_text("ascii", "replace")
    except OSError:
        return False
    if last.closed_at_us is not None:
        return False
    theirs = "\n".join(line for line in locks.splitlines() if line.split()[4:5] == [str(last.pid)])
    device = os.major(index.st_dev), os.minor(index.st_dev)
    return find_lock(theirs, device, index.st_ino, last, kind="POSIX") is not None


def find_lock(
    locks: str,
    device: tuple[int, int],
    inode: int,
    last: Opening | None,
    *,
    kind: Literal["FLOCK", "POSIX"] = "FLOCK",
) -> int | None:
    """Find a lock in what Linux lists.

    Args:
        locks: `N: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> 0 EOF` a line.
        device, inode: Of the file.
        kind: FLOCK is one of the whole file, POSIX one of a part.
        last: Whose process is believed where a file system names another device in the list than for the file.
    Returns:
        The process; 0 where it cannot be seen from here; None if nobody holds one.
    """
    for line in locks.splitlines():
        words = line.split()
        if len(words) < 6 or words[1] != kind:
            continue
        major, _, rest = words[5].partition(":")
        minor, _, number = rest.partition(":")
        if number != str(inode):
            continue
        pid = int(words[4]) if words[4].isdigit() else 0
        if (int(major, 16), int(minor, 16)) == device or (last is not None and pid == last.pid):
            return pid
    return None


def _guess(last: Opening | None) -> Held:
    """Without a list of locks: an opening that was never closed, by a process of this host that lives."""
    if last is None or last.closed_at_us is not None:
        return "no"
    if last.host != socket.gethostname():
        return "unknown"
    # A process that lives may be another one by now.
    return "no" if is_running(last.pid) is False else "unknown"
