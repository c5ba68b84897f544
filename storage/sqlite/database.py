"""Connections to a store: how each is set up, and who closes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import apsw

from ...actors import system
from ...actors.errors import BusError, Code
from .faults import store_error
from .files import Identity, identity
from .settings import BUSY_TIMEOUT_MS, MAX_LOG_PAGES, PAGE_BYTES, Settings

_STATEMENTS: Final = 512
"""Places for prepared statements, apsw's most. Each row of a batch takes the next place, and what was there goes."""


class Source(Protocol):
    """Where connections to one store come from."""

    def connect(self) -> apsw.Connection:
        """The writer's connection, ready for BEGIN IMMEDIATE."""
        ...

    def discard(self, connection: apsw.Connection) -> None:
        """Give up a writer's connection; what its transaction wrote is gone."""
        ...


class FileSource:
    """Connections to a store file."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        self._settings = settings
        self._file: Identity | None = None
        self.on_log: Callable[[int], None] = _ignore
        """Called by the writer's thread after each commit with the length of the write-ahead log, in pages."""

    def connect(self) -> apsw.Connection:
        """A writer's connection: write-ahead log, checkpoints left to their own thread.

        Raises:
            BusError: UNSAFE_FILESYSTEM, no write-ahead log is possible here; STORE_IO, it is another file than before.
            apsw.Error: anything else.
        """
        self._check_file()
        settings = self._settings
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
        connection = apsw.Connection(
            str(self.path), flags=flags, vfs=settings.vfs, statementcachesize=_STATEMENTS
        )
        try:
            harden(connection)
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchall()
            if mode != [("wal",)]:
                raise BusError(Code.UNSAFE_FILESYSTEM, f"{self.path} cannot have a write-ahead log")
            self._sync(connection)
            # What a purge empties must not stay readable in free pages, nor must what was moved before.
            connection.execute("PRAGMA secure_delete = ON").fetchall()
            connection.execute(f"PRAGMA cache_size = {-max(1, settings.cache_bytes // 1024)}")
            connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
            connection.execute(f"PRAGMA journal_size_limit = {MAX_LOG_PAGES * PAGE_BYTES}").fetchall()
            connection.set_wal_hook(self._note_log)
        except BaseException:
            close_connection(connection)
            raise
        return connection

    def connect_reader(self) -> apsw.Connection:
        """A connection that cannot write."""
        return connect_reader(self.path, self._settings.vfs)

    def connect_checkpointer(self) -> apsw.Connection:
        """A connection that only copies the log into the database.

        Raises:
            BusError: STORE_IO, it is another file than before.
            apsw.Error: anything else.
        """
        self._check_file()
        connection = apsw.Connection(
            str(self.path),
            flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW,
            vfs=self._settings.vfs,
        )
        try:
            harden(connection)
            self._sync(connection)
            connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        except BaseException:
            close_connection(connection)
            raise
        return connection

    def discard(self, connection: apsw.Connection) -> None:
        """Close it, whatever state it is in."""
        close_connection(connection)

    def _check_file(self) -> None:
        """Whoever opens again after a failure must not go on in a file that was put in its place meanwhile."""
        found = identity(self.path)
        self._file = self._file or found
        if found != self._file:
            raise BusError(
                Code.STORE_IO,
                f"{self.path} was moved, replaced or deleted while it was open: put the very file back, and start "
                "again",
                path=str(self.path),
                advised=True,
            )

    def _sync(self, connection: apsw.Connection) -> None:
        connection.execute(f"PRAGMA synchronous = {self._settings.durability}")
        if system.NEEDS_FULL_SYNC and self._settings.durability == "full":
            connection.execute("PRAGMA fullfsync = ON").fetchall()

    def _note_log(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self.on_log(pages)
        return apsw.SQLITE_OK


class MemorySource:
    """One database in memory; it lives as long as this object does."""

    def __init__(self, content: bytes | None = None) -> None:
        self._content = content
        self._connection: apsw.Connection | None = None

    def content(self) -> bytes:
        """All that is committed, as the bytes of a database file; not inside a transaction."""
        return self.connect().serialize("main")

    def connect(self) -> apsw.Connection:
        """The one connection there is: writer and reader."""
        if self._connection is None:
            self._connection = apsw.Connection(":memory:")
            if self._content is not None:
                self._connection.deserialize("main", self._content)
            harden(self._connection)
        return self._connection

    def discard(self, connection: apsw.Connection) -> None:
        """Roll back what is open; closing would lose the store."""
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def close_connection(connection: apsw.Connection) -> None:
    """Close a connection. What the disk says against it changes nothing: the log stays for the next opening."""
    try:
        connection.close(force=True)
    except apsw.Error as error:
        failure = store_error(error, "a connection cannot be closed properly")
        # Here, for it takes a tenth of a second to load: a look into a store has nothing to log.
        import structlog  # noqa: PLC0415

        log: structlog.typing.FilteringBoundLogger = structlog.get_logger()
        log.warning("store.close_failed", bus_error_code=failure.code, error=failure.message)


def _ignore(pages: int) -> None:
    pass


def connect_reader(path: Path, vfs: str | None = None) -> apsw.Connection:
    """A connection to a store that cannot write.

    Raises:
        apsw.Error: the file cannot be opened.
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
    try:
        harden(connection)
    except BaseException:
        close_connection(connection)
        raise
    return connection


def harden(connection: apsw.Connection) -> None:
    """Set a connection up: nothing in the schema of a store from elsewhere may run code, no quoted name is a text."""
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
