"""A consistent copy of a store beside its owner, to be read at leisure."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw
import attrs

from ...actors.errors import BusError, Code
from ...actors.system import lock_file, sync_file
from ..sqlite.files import create_private, identity, open_private
from ..sqlite.look import Look, StoreMeta
from .scan import open_copy


@attrs.frozen(kw_only=True)
class Snapshot:
    """A copy: where it lies, what it says of itself, when it was taken, and a connection that only reads it."""

    path: Path
    meta: StoreMeta
    taken_at_us: int
    database: apsw.Connection


@contextmanager
def open_snapshot(store: Path, folder: Path) -> Generator[Snapshot]:
    """Copy a store and read the copy; it is gone when the block ends.

    The live file is held in a read transaction for the copy alone, which is one step: no writer waits for it.

    Args:
        store: The store's file; its owner may be writing.
        folder: Where the copy lies meanwhile; as large as the store. One that was left by a process that was killed
            goes.
    Raises:
        BusError: as `Look`; STORE_BUSY, the store is being copied into this folder already.
    """
    with Look(store) as look:
        uuid = look.meta.uuid
    with _working_in(folder, uuid) as work:
        target = work / "copy.db"
        target.unlink(missing_ok=True)
        taken_at_us = _copy(store, target)
        with open_copy(target) as database:
            with Look(target) as look:
                meta = look.meta
            if meta.uuid != uuid:
                raise BusError(Code.STORE_MISMATCH, f"{store} was replaced while it was copied; try again")
            yield Snapshot(path=target, meta=meta, taken_at_us=taken_at_us, database=database)


@contextmanager
def _working_in(folder: Path, store: str) -> Generator[Path]:
    """A folder that one process at a time has for a store; it is gone when the block ends."""
    work = folder / f".snapshot-{store}"
    lock = work / "lock"
    work.mkdir(mode=0o700, exist_ok=True)
    descriptor = open_private(lock)
    try:
        try:
            lock_file(descriptor)
        except BlockingIOError as error:
            raise _busy(folder, store) from error
        if identity(lock) != (os.fstat(descriptor).st_dev, os.fstat(descriptor).st_ino):
            # Whoever had it before took it away meanwhile.
            raise _busy(folder, store)
        try:
            yield work
        finally:
            # Where an open file cannot be taken away it stays, empty.
            with contextlib.suppress(OSError):
                (work / "copy.db").unlink(missing_ok=True)
                shutil.rmtree(work)
    finally:
        os.close(descriptor)


def _busy(folder: Path, store: str) -> BusError:
    return BusError(
        Code.STORE_BUSY, f"store {store} is being exported into {folder} by another process; wait for its end"
    )


def copy_store(store: Path, target: Path) -> None:
    """Copy a store beside its owner, consistently, to a file that is then nobody's.

    Args:
        store: The store's file; its owner may be writing.
        target: A new file.
    Raises:
        BusError: as `Look`.
        FileExistsError: there is something at `target`.
    """
    if target.exists():
        raise FileExistsError(f"{target} is there already; give a new file")
    try:
        _copy(store, target)
        # This one is kept.
        with target.open("rb") as file:
            sync_file(file.fileno())
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _copy(store: Path, target: Path) -> int:
    def copy(source: apsw.Connection) -> int:
        # A look may begin again: what it copied before is void.
        target.unlink(missing_ok=True)
        create_private(target)
        connection = apsw.Connection(str(target))
        # Whoever syncs hundreds of MiB makes the owner's next commit wait for the disk.
        connection.execute("PRAGMA synchronous = OFF").fetchall()
        connection.execute("PRAGMA journal_mode = OFF").fetchall()
        own = not source.in_transaction
        try:
            if own:
                source.execute("BEGIN")
            # The first read takes the snapshot; the time is not before anything that it holds.
            source.execute("SELECT commit_seq FROM store_commit").fetchall()
            taken_at_us = time.time_ns() // 1000
            with connection.backup("main", source, "main") as backup:
                backup.step()
        finally:
            connection.close()
            if own and source.in_transaction:
                source.execute("ROLLBACK")
        return taken_at_us

    with Look(store) as look:
        return look.read(copy)
