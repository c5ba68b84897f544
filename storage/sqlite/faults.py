"""What an error of SQLite means for the store."""

from __future__ import annotations

from typing import Final, cast

import apsw

from ...actors.errors import BusError, Code

_CORRUPT: Final = (apsw.CorruptError, apsw.NotADBError)
_BUSY: Final = (apsw.BusyError, apsw.LockedError)
_UNIQUE: Final = (
    apsw.SQLITE_CONSTRAINT_UNIQUE,
    apsw.SQLITE_CONSTRAINT_PRIMARYKEY,
    apsw.SQLITE_CONSTRAINT_ROWID,
)


def is_unique_error(error: Exception) -> bool:
    """Whether a row was refused because its key is there; a value of a wrong type is a constraint error too."""
    return isinstance(error, apsw.ConstraintError) and _extended(error) in _UNIQUE


def store_error(error: Exception, what: str) -> BusError:
    """The typed error for an error of SQLite.

    Raises:
        AssertionError: a transaction of ours read before it wrote, without BEGIN IMMEDIATE: no waiting mends that.
    """
    if isinstance(error, BusError):
        return error
    if _extended(error) == apsw.SQLITE_BUSY_SNAPSHOT:
        raise AssertionError(f"{what}: a deferred transaction wrote over an old snapshot") from error
    if isinstance(error, _CORRUPT):
        code = Code.STORE_CORRUPT
    elif isinstance(error, _BUSY):
        code = Code.STORE_BUSY
    elif isinstance(error, apsw.FullError):
        code = Code.STORE_FULL
    else:
        code = Code.STORE_IO
    return BusError(code, f"{what}: {error}", sqlite=_extended(error))


def _extended(error: Exception) -> int | None:
    # apsw's types do not know it.
    return cast("int | None", getattr(error, "extendedresult", None))
