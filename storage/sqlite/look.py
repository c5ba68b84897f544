"""Looking into a store from outside: nothing is written, no lock of an owner taken, no file made.

Beside a live owner each statement is a transaction of its own on a read-only connection. A store at rest is read as
the plain file it is; if an owner comes meanwhile, what was read is read again beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar, cast

import apsw
import attrs

from ...actors.errors import BusError, Code
from .database import close_connection, connect_reader, harden
from .faults import store_error
from .files import check_files
from .migrate import inspect, load_migrations
from .reader import SqliteReader
from .resting import connect_resting, is_at_rest

T = TypeVar("T")

_MAX_WAKES: Final = 100
_DAMAGED: Final = (ValueError, TypeError, LookupError, OverflowError)
"""What reading a row raises whose values no store can have written."""


@attrs.frozen(kw_only=True)
class StoreMeta:
    """What a store says of itself, and the number of its last commit."""

    uuid: str
    schema: int
    shard_count: int
    lane_policy: str
    created_at_us: int
    commit_seq: int


class Look:
    """Reads one store from outside. Closed by `with`.

    Args:
        path: The store's file.
        any_schema: Also one of another version; then only `read` with one's own statements makes sense.
    Raises:
        BusError: NOT_FOUND, there is no such file; STORE_MISMATCH, it is no store or an older one; SCHEMA_TOO_NEW,
            STORE_CORRUPT, STORE_BUSY, STORE_IO, UNSAFE_FILESYSTEM.
    """

    def __init__(self, path: Path, *, any_schema: bool = False) -> None:
        # SQLite follows no link: a folder that is reached through one is named by its own path.
        self.path = path.parent.resolve() / path.name
        self._live: apsw.Connection | None = None
        try:
            self.meta: StoreMeta = self.read(_read_meta if any_schema else _read_current_meta)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End looking."""
        live, self._live = self._live, None
        if live is not None:
            close_connection(live)

    @property
    def shard_count(self) -> int:
        """Of the store."""
        return self.meta.shard_count

    def read(self, ask: Callable[[apsw.Connection], T]) -> T:
        """Read something.

        Args:
            ask: Gets the connection; short statements only, stepped to their ends. It may be called again.
        Raises:
            BusError: STORE_CORRUPT, STORE_BUSY, STORE_IO; what `ask` raises.
        """
        try:
            return self._read(ask)
        except BusError:
            raise
        except (apsw.Error, OSError) as error:
            raise store_error(error, f"{self.path} cannot be read") from error
        except _DAMAGED as error:
            raise BusError(
                Code.STORE_CORRUPT, f"{self.path} holds a row that no store writes: {type(error).__name__}"
            ) from error

    def ask(self, question: Callable[[SqliteReader], T]) -> T:
        """Read through a `SqliteReader`.

        Raises:
            BusError: as `read`.
        """
        return self.read(lambda db: question(SqliteReader(db, self.shard_count, owned=False)))

    def _read(self, ask: Callable[[apsw.Connection], T]) -> T:
        if self._live is not None:
            return ask(self._live)
        check_files(self.path)
        if not self.path.exists():
            raise BusError(Code.NOT_FOUND, f"there is no file {self.path}", path=str(self.path))
        for _ in range(_MAX_WAKES):
            if not is_at_rest(self.path):
                self._live = connect_reader(self.path)
                return ask(self._live)
            found = self._read_resting(ask)
            if found is not None:
                return found[0]
        raise BusError(Code.STORE_BUSY, f"{self.path} is opened and closed all the time")

    def _read_resting(self, ask: Callable[[apsw.Connection], T]) -> tuple[T] | None:
        """Read the plain file; None if it was no plain file all the time."""
        connection = connect_resting(self.path)
        try:
            harden(connection)
            connection.execute("BEGIN")
            # The first read takes the lock under which the files of an owner that comes now stay.
            connection.execute("PRAGMA schema_version").fetchall()
            found = (ask(connection),) if is_at_rest(self.path) else None
            return found if is_at_rest(self.path) else None
        except (apsw.Error, *_DAMAGED):
            if is_at_rest(self.path):
                raise
            return None
        finally:
            close_connection(connection)


def _read_meta(connection: apsw.Connection) -> StoreMeta:
    found = inspect(connection)
    if found.schema == 0:
        raise BusError(Code.STORE_MISMATCH, "the file is empty: it becomes a store when a bot opens it")
    rows = connection.execute(
        "SELECT uuid, schema, shard_count, lane_policy, store_meta.created_at, commit_seq"
        " FROM store_meta, store_commit"
    ).fetchall()
    if len(rows) != 1:
        raise BusError(Code.STORE_CORRUPT, "the store does not say what it is")
    uuid, schema, shard_count, lane_policy, created_at, commit_seq = cast(
        "tuple[str, int, int, str, int, int]", rows[0]
    )
    return StoreMeta(
        uuid=uuid,
        schema=schema,
        shard_count=shard_count,
        lane_policy=lane_policy,
        created_at_us=created_at,
        commit_seq=commit_seq,
    )


def _read_current_meta(connection: apsw.Connection) -> StoreMeta:
    found = inspect(connection)
    newest = load_migrations()[-1].number
    if found.schema > newest:
        raise BusError(
            Code.SCHEMA_TOO_NEW,
            f"the store has schema {found.schema}, this version knows {newest}",
            schema=found.schema,
        )
    if 0 < found.schema < newest:
        raise BusError(
            Code.STORE_MISMATCH,
            f"the store has schema {found.schema}, this version reads {newest}: upgrade it with"
            " `shardline migrate`; a bot that starts on it does that by itself",
            schema=found.schema,
        )
    return _read_meta(connection)
