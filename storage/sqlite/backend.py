"""The writer of one store: a batch of parts in, one transaction, one outcome a part.

The usual way is one transaction for all parts, planned without looking anything up. If the database refuses a row, the
batch is tried once more with its duplicates looked up, then part by part (a savepoint each, still one transaction), so
that the guilty part alone is refused. What COMMIT itself fails with says nothing of the disk: the batch stays open,
the connection is replaced, and `commit_seq` tells whether the batch is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

import apsw
import attrs
import structlog

from ...actors.errors import BusError, Code
from ...actors.failpoints import FailPoints
from ..commands import Commit, Outcome, Part, Refused
from ..labels import labels_of
from ..writing import NotStoredError, OpenError, nothing
from . import sql
from .apply import MismatchError, apply_numbers, apply_plan
from .chain import Linker
from .database import Source
from .faults import is_unique_error, store_error
from .known import NOTHING_KNOWN, Known
from .lookup import find_known, find_missing_claims, load_places
from .numbers import Numbers, UnknownPlaceError, read_numbers
from .opening import close_instance
from .planner import Planner

_log: Final[structlog.typing.FilteringBoundLogger] = structlog.get_logger()

_BEGIN_TRIES: Final = 3
_MAX_FAILURES: Final = 3

_REFUSALS: Final = (MismatchError, BusError, apsw.ConstraintError, TypeError, ValueError, OverflowError)
"""What a part can be to blame for; anything else concerns the whole transaction."""


def _note_nowhere(_: int) -> None:
    """A database in memory is never found older."""


@attrs.frozen
class _Attempt:
    """A transaction that is written but not known to be on disk."""

    outcomes: list[Outcome]
    numbers: Numbers
    shards: set[int]


class Backend:
    """Applies batches through the one write connection.

    Args:
        source: Where to get the connection anew after a failure.
        connection: From `source`, with an open instance.
        instance: Number of this opening.
        atomic: Whether emits become rows of their homes in the same commit.
        leaves_clean: Whether a proper end of this opening leaves nothing to recover.
        noted: Gets the number of each commit that is on disk.
        failpoints: Passed around each COMMIT.
    """

    def __init__(
        self,
        source: Source,
        connection: apsw.Connection,
        *,
        instance: int,
        atomic: bool,
        failpoints: FailPoints,
        leaves_clean: bool = True,
        noted: Callable[[int], None] = _note_nowhere,
    ) -> None:
        self._source = source
        self._database: apsw.Connection | None = connection
        self._instance = instance
        self._atomic = atomic
        self._failpoints = failpoints
        self._leaves_clean = leaves_clean
        self._noted = noted
        self._linker = Linker()
        self._numbers = read_numbers(connection)
        self._open: _Attempt | None = None

    @property
    def numbers(self) -> Numbers:
        """Where the counters stand on disk; not to be changed."""
        return self._numbers

    @property
    def open_messages(self) -> int:
        """See `Applies`."""
        return self._numbers.open_messages

    def apply(self, parts: Sequence[Part], before_commit: Callable[[], None] = nothing) -> list[Outcome]:
        """See `Applies`: STORE_IO after three failures in a row."""
        failures = 0
        while True:
            try:
                database = self._connected()
                done = self._recall(database)
                return done + self._transact(database, parts[len(done) :], before_commit)
            except (apsw.Error, BusError) as error:
                failure = store_error(error, "the store cannot write")
                self._undo(failure)
                if failure.code in {Code.STORE_FULL, Code.STORE_BUSY}:
                    self._give_up(failure)
                    continue
                failures += 1
                _log.warning(
                    "store.write_failed",
                    bus_error_code=failure.code,
                    error=failure.message,
                    failures=failures,
                )
                if failure.code is Code.STORE_CORRUPT or failures == _MAX_FAILURES:
                    raise failure from error

    def close(self, *, closed_at_us: int | None) -> None:
        """Close the connection; with a time, note that this opening ended properly. Closing twice is fine."""
        database, self._database = self._database, None
        if database is None:
            return
        try:
            if closed_at_us is not None and self._open is None:
                close_instance(database, self._instance, closed_at_us, clean=self._leaves_clean)
        except apsw.Error as error:
            failure = store_error(error, "the store cannot be closed properly")
            _log.warning("store.close_failed", bus_error_code=failure.code, error=failure.message)
        finally:
            self._source.discard(database)

    def _connected(self) -> apsw.Connection:
        if self._database is None:
            self._database = self._source.connect()
        return self._database

    def _undo(self, failure: BusError) -> None:
        """End the failed transaction; after anything but a plain refusal the connection is not to be trusted."""
        database = self._database
        if (
            database is None
            or self._open is not None
            or failure.code not in {Code.STORE_FULL, Code.STORE_BUSY}
        ):
            self._disconnect()
        elif database.in_transaction:
            database.execute("ROLLBACK")

    def _disconnect(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            self._source.discard(database)

    def _recall(self, database: apsw.Connection) -> list[Outcome]:
        """What became of a transaction whose COMMIT failed: its outcomes if it is there, nothing if it is not."""
        attempt = self._open
        if attempt is None:
            return []
        stored = self._is_stored(database, attempt)
        self._open = None
        if not stored:
            return []
        self._settle(attempt)
        return attempt.outcomes

    def _is_stored(self, database: apsw.Connection, attempt: _Attempt) -> bool:
        ((stored,),) = cast("list[tuple[int]]", database.execute(sql.READ_COMMIT_SEQ).fetchall())
        meant = attempt.numbers.commit_seq
        # One before: neither it nor a commit in its place is there. One after: the commit in its place is.
        if abs(stored - meant) > 1:
            raise BusError(Code.STORE_CORRUPT, f"the store is at commit {stored}, not at {meant}")
        if stored != meant:
            self._numbers.commit_seq = stored
        return stored == meant

    def _settle(self, attempt: _Attempt) -> None:
        attempt.numbers.settle()
        self._numbers = attempt.numbers
        self._noted(attempt.numbers.commit_seq)

    def _give_up(self, failure: BusError) -> None:
        """Nothing more can be written now: make sure that the batch is not there, or leave it open.

        Returns only if the batch proved to be there.
        """
        if self._open is None:
            raise NotStoredError(failure)
        try:
            database = self._connected()
            if self._is_stored(database, self._open):
                return
            # Frames of the failed COMMIT may lie whole in the log, unseen until a restart reads it: a commit in
            # their place makes sure that they never come back. Its number tells it from the failed one.
            instead = self._open.numbers.commit_seq + 1
            database.execute("BEGIN IMMEDIATE")
            database.execute(sql.SKIP_COMMIT, (instead,))
            database.execute("COMMIT")
            self._numbers.commit_seq = instead
        except apsw.Error as error:
            self._disconnect()
            raise OpenError(failure) from error
        self._open = None
        raise NotStoredError(failure)

    def _transact(
        self, database: apsw.Connection, parts: Sequence[Part], before_commit: Callable[[], None]
    ) -> list[Outcome]:
        if not parts:
            return []
        self._begin(database)
        changes = database.total_changes()
        attempt = self._write(database, parts)
        if not attempt.shards and database.total_changes() == changes:
            database.execute("ROLLBACK")
            return attempt.outcomes
        attempt.numbers.commit_seq += 1
        apply_numbers(database, attempt.numbers, attempt.shards, self._instance)
        before_commit()
        kinds = labels_of(parts) if self._failpoints.armed else None
        if kinds is not None:
            self._failpoints.hit("before_commit", kinds)
        self._open = attempt
        database.execute("COMMIT")
        self._open = None
        self._settle(attempt)
        if kinds is not None:
            self._failpoints.hit("after_commit", kinds)
        return attempt.outcomes

    def _begin(self, database: apsw.Connection) -> None:
        for left in reversed(range(_BEGIN_TRIES)):
            try:
                database.execute("BEGIN IMMEDIATE")
                return
            except apsw.BusyError:
                if not left:
                    raise

    def _write(self, database: apsw.Connection, parts: Sequence[Part]) -> _Attempt:
        try:
            return self._write_all(database, parts, NOTHING_KNOWN)
        except _REFUSALS as error:
            unique = is_unique_error(error)
        if unique:
            self._restart(database)
            try:
                return self._write_all(database, parts, find_known(database, parts))
            except _REFUSALS:
                pass  # as without the look-up: each part for itself
        self._restart(database)
        return self._write_each(database, parts)

    def _restart(self, database: apsw.Connection) -> None:
        database.execute("ROLLBACK")
        self._begin(database)

    def _write_all(self, database: apsw.Connection, parts: Sequence[Part], known: Known) -> _Attempt:
        planner = self._planner(self._numbers.fork(), known)
        try:
            outcomes = list(map(planner.add, parts))
        except UnknownPlaceError:
            load_places(database, parts, self._numbers)
            planner = self._planner(self._numbers.fork(), known)
            outcomes = list(map(planner.add, parts))
        planner.finish()
        apply_plan(database, planner.plan)
        return _Attempt(outcomes, planner.numbers, planner.plan.shards)

    def _write_each(self, database: apsw.Connection, parts: Sequence[Part]) -> _Attempt:
        load_places(database, parts, self._numbers)
        outcomes: list[Outcome] = []
        shards: set[int] = set()
        numbers = self._numbers.fork()
        for part in parts:
            outcome, numbers = self._write_one(database, part, numbers, shards)
            outcomes.append(outcome)
        return _Attempt(outcomes, numbers, shards)

    def _write_one(
        self, database: apsw.Connection, part: Part, numbers: Numbers, shards: set[int]
    ) -> tuple[Outcome, Numbers]:
        """Write one part in a savepoint; `shards` grows by what it touched, unless it is refused."""
        missing: set[int] = set()
        while True:
            database.execute("SAVEPOINT part")
            try:
                known = find_known(database, [part])
                known.missing = missing
                planner = self._planner(numbers.fork(), known)
                outcome = planner.add(part)
                planner.finish()
                apply_plan(database, planner.plan)
            except _REFUSALS as error:
                database.execute("ROLLBACK TO part")
                database.execute("RELEASE part")
                if isinstance(error, MismatchError) and isinstance(part, Commit) and not missing:
                    missing = find_missing_claims(database, part)
                    if missing:
                        continue
                return Refused(_blame(error)), numbers
            database.execute("RELEASE part")
            shards |= planner.plan.shards
            return outcome, planner.numbers

    def _planner(self, numbers: Numbers, known: Known) -> Planner:
        return Planner(
            numbers, instance=self._instance, atomic=self._atomic, known=known, linker=self._linker
        )


def _blame(error: Exception) -> BusError:
    """Why a part that failed alone is refused."""
    if isinstance(error, BusError):
        return error
    if isinstance(error, MismatchError):
        return BusError(
            Code.STALE_CLAIM, "a row is not at the claim, status and generation that the move names"
        )
    refused = BusError(Code.INVALID_MESSAGE, f"the part cannot be stored: {error!r}")
    refused.__cause__ = error
    return refused
