"""Open a store: lock, look, migrate, take every lease. Nothing is changed unless all of it is fine."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final, cast

import apsw
import attrs
import structlog

from ...actors.errors import BusError, Code
from ..port import StoreInfo
from .chain import FIRST_HEAD
from .database import FileSource, close_connection
from .faults import store_error
from .files import check_files, check_only_name, create_private, denied
from .lock import OwnerLock
from .migrate import Migration, backed_up, check_settings, inspect, load_migrations, migrate
from .mounts import check_file_system
from .owner import is_owned_without_lock, read_openings
from .settings import Settings
from .sql import READ_COMMIT_SEQ
from .trouble import Mark

_log: Final[structlog.typing.FilteringBoundLogger] = structlog.get_logger()


@attrs.frozen
class OpenedFile:
    """A store file that this process owns."""

    source: FileSource
    lock: OwnerLock
    connection: apsw.Connection
    info: StoreInfo


def open_file(
    path: Path, settings: Settings, now_us: int, migrations: Sequence[Migration] | None = None
) -> OpenedFile:
    """Become the owner of a store file; a missing or empty one becomes a store.

    Args:
        path: The file; its folder must be there.
        settings: Shard count and lane policy must be the stored ones.
        now_us: Wall clock.
        migrations: The steps to the newest schema; None are those shipped.
    Raises:
        BusError: STORE_LOCKED, UNSAFE_FILESYSTEM, SCHEMA_TOO_NEW, STORE_MISMATCH, STORE_CORRUPT, STORE_BUSY,
            STORE_FULL or STORE_IO. The file is as it was.
    """
    steps = load_migrations() if migrations is None else migrations
    check_file_system(path, is_allowed=settings.allows_unsafe)
    lock = OwnerLock.take(path, wait_s=settings.lock_wait_s)
    try:
        check_files(path)
        check_only_name(path)
        source = FileSource(path, settings)
        if not create_private(path) and path.stat().st_size:
            _look(source, settings, steps, lock)
        connection = source.connect()
        try:
            info = open_instance(
                connection, settings, now_us, steps, lambda schema: _copied(connection, path, schema, now_us)
            )
            commits = cast("list[tuple[int]]", connection.execute(READ_COMMIT_SEQ).fetchall())[0][0]
        except BaseException:
            source.discard(connection)
            raise
    except BaseException as error:
        lock.release()
        if _is_denied(error, path):
            raise denied(path) from error
        if isinstance(error, apsw.Error | OSError):
            raise store_error(error, f"{path} cannot be opened") from error
        raise
    if not lock.note_opening(Mark(info.instance, commits)):
        _log.warning("store.went_back", path=str(path), instance=info.instance)
    _log.info("store.opened", path=str(path), schema=info.schema, instance=info.instance, clean=info.clean)
    return OpenedFile(source, lock, connection, info)


def open_instance(
    connection: apsw.Connection,
    settings: Settings,
    now_us: int,
    migrations: Sequence[Migration],
    around_migration: Callable[[int], AbstractContextManager[None]],
) -> StoreInfo:
    """Bring the schema up to date, count this opening, take the lease of every shard: one transaction.

    `around_migration` gets the old schema; its block is left before the commit, by an error if nothing comes of it.

    Raises:
        BusError: SCHEMA_TOO_NEW, STORE_MISMATCH.
        apsw.Error: nothing is changed.
    """
    newest = migrations[-1].number
    found = inspect(connection)
    check_settings(found, settings, newest)
    with around_migration(found.schema) if 0 < found.schema < newest else nullcontext():
        connection.execute("BEGIN IMMEDIATE")
        try:
            if found.schema < newest:
                migrate(connection, found.schema, migrations)
            if found.schema == 0:
                _create(connection, settings, now_us, newest)
            info = _count_instance(connection, now_us)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    connection.execute("COMMIT")
    return info


def close_instance(connection: apsw.Connection, instance: int, now_us: int, *, clean: bool) -> None:
    """Note that an opening ended, and whether it leaves nothing to recover.

    Raises:
        apsw.Error: it counts as a crash.
    """
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE instance SET closed_at = ?, clean = ? WHERE id = ?", (now_us, clean, instance))
    connection.execute("COMMIT")


def _is_denied(error: BaseException, path: Path) -> bool:
    if isinstance(error, apsw.CantOpenError):
        return path.is_file() and not os.access(path, os.R_OK | os.W_OK)
    return isinstance(error, apsw.ReadOnlyError)


def _look(source: FileSource, settings: Settings, migrations: Sequence[Migration], lock: OwnerLock) -> None:
    """Look at an existing file through a connection that cannot change it."""
    connection = source.connect_reader()
    try:
        found = inspect(connection)
        check_settings(found, settings, migrations[-1].number)
        if found.schema:
            check_no_other(connection, source.path, lock)
    except apsw.ReadOnlyError:
        # A transaction was cut off in a rollback journal: only a writer can undo it, and then looks again.
        pass
    finally:
        close_connection(connection)


def check_no_other(connection: apsw.Connection, path: Path, lock: OwnerLock) -> None:
    """Make sure that the lock just taken is not a new file beside an owner whose own was deleted.

    Raises:
        BusError: STORE_LOCKED, the last opening lives on.
    """
    last = read_openings(connection, 1)
    if not last or not is_owned_without_lock(path, last[0]):
        return
    # What this process itself has open may be one's own reading, left from an opening that ended.
    if last[0].pid != os.getpid() or lock.has_another():
        raise BusError(
            Code.STORE_LOCKED,
            f"{path} has another owner, process {last[0].pid}, whose lock file was moved or deleted: stop that first",
            path=str(path),
        )


@contextmanager
def _copied(connection: apsw.Connection, path: Path, schema: int, now_us: int) -> Generator[None]:
    with backed_up(connection, path, schema, now_us) as copy:
        yield
    _log.info("store.backed_up", path=str(copy), schema=schema)


def _create(connection: apsw.Connection, settings: Settings, now_us: int, schema: int) -> None:
    connection.execute(
        "INSERT INTO store_meta (id, uuid, schema, shard_count, lane_policy, created_at) VALUES (1, ?, ?, ?, ?, ?)",
        (str(uuid.uuid4()), schema, settings.shard_count, settings.lane_policy, now_us),
    )
    connection.execute("INSERT INTO store_commit VALUES (1, 0, 0, 1, 1, 1, 0, 0)")
    connection.executemany(
        "INSERT INTO shard (shard, epoch, instance, seq, hseq, h) VALUES (?, 0, 0, 0, 0, ?)",
        [(shard, FIRST_HEAD) for shard in range(settings.shard_count)],
    )


def _count_instance(connection: apsw.Connection, now_us: int) -> StoreInfo:
    last = connection.execute("SELECT id, clean FROM instance ORDER BY id DESC LIMIT 1").fetchall()
    before, clean = cast("tuple[int, int]", last[0]) if last else (0, 1)
    instance = before + 1
    connection.execute(
        "INSERT INTO instance (id, epoch, host, pid, opened_at) VALUES (?, ?, ?, ?, ?)",
        (instance, instance, socket.gethostname(), os.getpid(), now_us),
    )
    connection.execute("UPDATE shard SET epoch = epoch + 1, instance = ?", (instance,))
    connection.execute("UPDATE store_commit SET commit_seq = commit_seq + 1")
    meta = connection.execute("SELECT uuid, schema, shard_count, created_at FROM store_meta").fetchall()
    store, schema, shard_count, created_at = cast("tuple[str, int, int, int]", meta[0])
    return StoreInfo(
        uuid=store,
        schema=schema,
        shard_count=shard_count,
        created_at_us=created_at,
        instance=instance,
        clean=bool(clean),
    )
