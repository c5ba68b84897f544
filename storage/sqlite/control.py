"""The control records of a store, from any process: one short transaction to leave one, short reads of its result."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

import apsw

from ...actors.errors import BusError, Code
from ..records import StoredControl
from .database import FileSource, close_connection
from .faults import store_error
from .look import Look
from .reader import CONTROL_COLUMNS, read_control
from .rows import Row
from .settings import Settings

_BUSY_S: Final = 5.0
"""How long a record waits for the owner's lock."""
_LOOK_EVERY_S: Final = 0.002
"""An owner at full load leaves its lock for moments only, which SQLite's own pauses of up to 100 ms miss."""
_INSERT: Final = (
    "INSERT INTO control (id, verb, args, actor, created_at, status) VALUES (?, ?, ?, ?, ?, 'waiting')"
    " ON CONFLICT (id) DO NOTHING"
)
_READ: Final = f"SELECT {CONTROL_COLUMNS} FROM control WHERE id = ?"  # noqa: S608 (constants)


def _args_as_they_are(_verb: str, args: str) -> str:
    return args


def _looking_often(limit_s: float) -> Callable[[int], bool]:
    """What SQLite asks while a lock is another's, with how often it has: whether to look once more."""
    until_s = 0.0

    def wait(looks: int) -> bool:
        nonlocal until_s
        if looks == 0:
            until_s = time.monotonic() + limit_s
        time.sleep(_LOOK_EVERY_S)
        return time.monotonic() < until_s

    return wait


class ControlBox:
    """Leaves control records in a store that somebody may own. Closed by `with`.

    Args:
        path: The store's file; it is never made.
    Raises:
        BusError: NOT_FOUND, STORE_MISMATCH, SCHEMA_TOO_NEW, STORE_CORRUPT, STORE_BUSY, STORE_IO, UNSAFE_FILESYSTEM.
    """

    def __init__(self, path: Path) -> None:
        with Look(path) as look:
            self.path = look.path
            self.shard_count: int = look.shard_count
            self.lane_policy: str = look.meta.lane_policy
        try:
            self._connection = FileSource(self.path, Settings()).connect()
            self._connection.set_busy_handler(_looking_often(_BUSY_S))
        except (apsw.Error, OSError) as error:
            raise store_error(error, f"{path} cannot be opened") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close_connection(self._connection)

    def leave(
        self, controls: Sequence[StoredControl], ended_args: Callable[[str, str], str] = _args_as_they_are
    ) -> list[StoredControl]:
        """Store records that wait, all or none; one whose id is there stays as it is.

        Args:
            controls: As they are asked for.
            ended_args: What stays of a verb's arguments once it has ended; gets both as they are stored.
        Returns:
            What stands under their ids.
        Raises:
            BusError: IDENTITY_MISMATCH, an id is another decision's; STORE_BUSY, STORE_FULL, STORE_IO, STORE_CORRUPT.
        """
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                stored = [self._leave_one(control, ended_args) for control in controls]
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            # Nothing is read behind it: what fails after it would hide that the records stand.
            self._commit()
        except apsw.Error as error:
            raise store_error(error, "the store takes no control record") from error
        return stored

    def _leave_one(self, control: StoredControl, ended_args: Callable[[str, str], str]) -> StoredControl:
        self._connection.execute(
            _INSERT, (control.id, control.verb, control.args, control.actor, control.created_at_us)
        )
        stored = self.read(control.id)
        known = {control.args, ended_args(control.verb, control.args)}
        if stored.verb != control.verb or stored.args not in known:
            raise BusError(
                Code.IDENTITY_MISMATCH, f"control {control.id} is another decision", control_id=control.id
            )
        return stored

    def read(self, control_id: str) -> StoredControl:
        """Read one record.

        Raises:
            BusError: NOT_FOUND; STORE_BUSY, STORE_IO, STORE_CORRUPT.
        """
        try:
            rows = cast("list[Row]", self._connection.execute(_READ, (control_id,)).fetchall())
        except apsw.Error as error:
            raise store_error(error, "the store cannot be read") from error
        if not rows:
            raise BusError(Code.NOT_FOUND, f"there is no control record {control_id[:60]}")
        return read_control(rows[0])

    def version(self) -> int:
        """Another number after each commit of another connection.

        Raises:
            BusError: STORE_BUSY, STORE_IO.
        """
        try:
            return cast("list[tuple[int]]", self._connection.execute("PRAGMA data_version").fetchall())[0][0]
        except apsw.Error as error:
            raise store_error(error, "the store cannot be read") from error

    def _commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except apsw.Error:
            if self._connection.in_transaction:
                with contextlib.suppress(apsw.Error):
                    self._connection.execute("ROLLBACK")
            raise
