"""Bring a store's schema up to date without running it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import apsw
import attrs

from ...actors.errors import BusError, Code
from .database import FileSource
from .faults import store_error
from .files import check_files, check_only_name
from .lock import OwnerLock
from .migrate import Found, Migration, backed_up, check_settings, inspect, load_migrations, migrate
from .mounts import check_file_system
from .opening import check_no_other
from .settings import Settings


@attrs.frozen(kw_only=True)
class Upgrade:
    """What an upgrade did; `backup` is None where nothing was to do."""

    before: int
    after: int
    backup: Path | None


def upgrade_file(path: Path, now_us: int, migrations: Sequence[Migration] | None = None) -> Upgrade:
    """Run the missing migrations under the owner's lock, after a backup copy. It counts as no opening.

    Args:
        path: The store's file.
        now_us: Wall clock; part of the copy's name.
        migrations: The steps to the newest schema; None are those shipped.
    Raises:
        BusError: STORE_LOCKED, somebody has the store open; NOT_FOUND, STORE_MISMATCH, SCHEMA_TOO_NEW, STORE_CORRUPT,
            STORE_BUSY, STORE_FULL, STORE_IO, UNSAFE_FILESYSTEM. The store is as it was.
    """
    steps = load_migrations() if migrations is None else migrations
    check_file_system(path, is_allowed=False)
    check_files(path)
    check_only_name(path)
    if not path.exists():
        raise BusError(Code.NOT_FOUND, f"there is no file {path}", path=str(path))
    lock = OwnerLock.take(path)
    try:
        return _upgrade(path, now_us, steps, lock)
    except (apsw.Error, OSError) as error:
        raise store_error(error, f"{path} cannot be upgraded") from error
    finally:
        lock.release()


def _upgrade(path: Path, now_us: int, steps: Sequence[Migration], lock: OwnerLock) -> Upgrade:
    source = FileSource(path, Settings())
    connection = source.connect_reader()
    try:
        found = inspect(connection)
        if found.schema:
            check_no_other(connection, path, lock)
    finally:
        source.discard(connection)
    newest = steps[-1].number
    if found.schema == 0:
        raise BusError(Code.STORE_MISMATCH, "the file is empty: it becomes a store when a bot opens it")
    check_settings(found, _settings_of(found), newest)
    if found.schema == newest:
        return Upgrade(before=newest, after=newest, backup=None)
    connection = source.connect()
    try:
        with backed_up(connection, path, found.schema, now_us) as copy:
            connection.execute("BEGIN IMMEDIATE")
            try:
                migrate(connection, found.schema, steps)
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        connection.execute("COMMIT")
    finally:
        source.discard(connection)
    return Upgrade(before=found.schema, after=newest, backup=copy)


def _settings_of(found: Found) -> Settings:
    return Settings(shard_count=found.shard_count, lane_policy=found.lane_policy)
