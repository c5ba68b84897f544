"""Checks the files of a command before any is opened or made."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...actors.text import has_lone_surrogate
from ..exit_code import ExitCode
from .problem import Problem

_STORE_SUFFIXES = ("", "-wal", "-shm", "-journal", ".lock")


def check_paths(*, log: Path | None, store: Path, sink: Path) -> None:
    """Refuse files that cannot be what they are named for.

    Args:
        log: To be read: a regular file, or a link to one; None for the demo's own.
        store: A store, or nothing yet.
        sink: A sink, or nothing yet.
    Raises:
        Problem: exit code 2, with what to do.
    """
    if log is not None:
        _check_log(log)
    check_new_store(store)
    check_output("--sink", sink)
    beside = [store.with_name(store.name + suffix) for suffix in _STORE_SUFFIXES]
    for path in beside:
        if _is_same(sink, path):
            raise Problem(f"--sink {sink} is a file of the store; give the sink a name of its own")
        if log is not None and _is_same(log, path):
            raise Problem(
                f"--store {store} would overwrite the input {log}; give the store a name of its own"
            )
    if log is not None and _is_same(log, sink):
        raise Problem(f"--sink {sink} is the input itself; give the sink a name of its own")
    if not store.exists() and sink.exists() and sink.stat().st_size:
        raise Problem(
            f"--sink {sink} holds the answers of another store, and {store} is new; give the sink a new name"
        )


def _check_log(log: Path) -> None:
    try:
        mode = log.stat().st_mode
        if not stat.S_ISREG(mode):
            raise Problem(f"--input {log} is no regular file; give the path of a chat log")
        with log.open("rb"):
            pass
    except FileNotFoundError:
        raise Problem(f"--input {log} does not exist; give the path of a chat log") from None
    except (OSError, ValueError) as error:
        raise Problem(f"--input {log} cannot be read: {_reason(error)}") from None


def check_new_store(path: Path) -> None:
    """Refuse a store to open that cannot be written to or made.

    Raises:
        Problem: exit code 2, with what to do.
    """
    check_output("--store", path)
    _check_name(path)


def check_output(option: str, path: Path) -> None:
    """Refuse what cannot be written to or made.

    Raises:
        Problem: exit code 2, with what to do.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        _check_folder(option, path.parent)
        return
    except (OSError, ValueError) as error:
        raise Problem(f"{option} {path} cannot be used: {_reason(error)}") from None
    if stat.S_ISLNK(mode):
        raise Problem(f"{option} {path} is a symbolic link; give the path of the file itself")
    if not stat.S_ISREG(mode):
        raise Problem(f"{option} {path} is no regular file; give the path of a file, or of none yet")
    if not os.access(path, os.R_OK | os.W_OK):
        raise Problem(f"{option} {path} cannot be written; change its permissions or give another path")
    _check_folder(option, path.parent)


def check_store(path: Path, named: str = "--store") -> None:
    """Refuse a store to look at that is not there, no regular file, or not readable. Nothing is opened.

    Args:
        path: Of the store.
        named: How the command calls it.
    Raises:
        Problem: exit code 2, with what to do; 1, its owner has it open and it is gone.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        _check_gone(path)
        raise Problem(f"{named} {path} does not exist; give the path of a store") from None
    except (OSError, ValueError) as error:
        raise Problem(f"{named} {path} cannot be used: {_reason(error)}") from None
    if stat.S_ISLNK(mode):
        raise Problem(f"{named} {path} is a symbolic link; give the path of the file itself")
    if not stat.S_ISREG(mode):
        raise Problem(f"{named} {path} is no regular file; give the path of a store")
    if not os.access(path, os.R_OK):
        raise Problem(f"{named} {path} cannot be read; become its owner or change its permissions")
    _check_name(path)


def _check_gone(path: Path) -> None:
    from ...storage.sqlite.owner import find_owner  # noqa: PLC0415 (only where something is wrong)

    owner = find_owner(path, None)
    if owner.held == "yes":
        raise Problem(
            f"--store {path} was moved or deleted while process {owner.holder_pid} has it open: put the very file back"
            " (mv, no copy) while that runs",
            ExitCode.FAILURE,
        )


def _check_name(store: Path) -> None:
    # The database names its files in UTF-8.
    if has_lone_surrogate(str(store.absolute())):
        raise Problem(f"--store {store}: its path is no UTF-8; rename it")


def _check_folder(option: str, folder: Path) -> None:
    if not folder.is_dir():
        raise Problem(f"{option}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Problem(f"{option}: the folder {folder} cannot be written; give another path")


def _is_same(one: Path, other: Path) -> bool:
    """The same file, by name or through links."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return one.resolve() == other.resolve()


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


__all__ = ["check_new_store", "check_output", "check_paths", "check_store"]
