"""Open a store in memory: the same backend over a private database, for tests and for bots that may forget."""

from __future__ import annotations

from contextlib import nullcontext

from ..actors.clock import Clock, SystemClock
from ..actors.errors import Code
from ..actors.failpoints import NO_FAILPOINTS, FailPoints
from .condition import LogState, Moved
from .journal import Journal, NextIds
from .port import Caps
from .sqlite.backend import Backend
from .sqlite.database import MemorySource
from .sqlite.migrate import load_migrations
from .sqlite.opening import open_instance
from .sqlite.reader import SqliteReader
from .sqlite.settings import Emits, Settings


class MemoryDatabase:
    """What a store in memory keeps: open it again after a crash, as one would the file."""

    def __init__(self, content: bytes | None = None) -> None:
        self.source = MemorySource(content)

    def copy(self) -> MemoryDatabase:
        """What is committed now, as a kill would leave it."""
        return MemoryDatabase(self.source.content())


class MemoryFiles:
    """What a journal over memory closes: nothing but its own use of the database."""

    def __init__(self, reader: SqliteReader, backend: Backend) -> None:
        self._reader = reader
        self._backend = backend

    def log(self) -> LogState:
        """See `Files`."""
        return LogState()

    def moved(self) -> Moved | None:
        """See `Files`."""
        return None

    def tell(self, trouble: Code | None) -> None:
        """See `Files`: there is nobody beside it."""

    def close_reader(self) -> None:
        """See `Files`."""
        self._reader.close()

    def close(self, *, closed_at_us: int | None) -> None:
        """See `Files`."""
        self._backend.close(closed_at_us=closed_at_us)


def open_memory(
    *,
    shard_count: int = 16,
    lane_policy: str = "conversation",
    clock: Clock | None = None,
    emits: Emits = "atomic",
    failpoints: FailPoints = NO_FAILPOINTS,
    database: MemoryDatabase | None = None,
) -> Journal:
    """Open a store that is gone with the process. It writes inline, under any clock.

    Args:
        shard_count, lane_policy, clock, emits, failpoints: As for `open_sqlite`.
        database: Kept by the caller, to open the same store again; one journal at a time.
    Raises:
        BusError: STORE_MISMATCH, the database was made with other settings.
    """
    clock = clock or SystemClock()
    settings = Settings(shard_count=shard_count, lane_policy=lane_policy, emits=emits)
    source = (database or MemoryDatabase()).source
    connection = source.connect()
    info = open_instance(connection, settings, clock.wall_us(), load_migrations(), lambda _: nullcontext())
    backend = Backend(
        source, connection, instance=info.instance, atomic=emits == "atomic", failpoints=failpoints
    )
    reader = SqliteReader(connection, shard_count, owned=False)
    numbers = backend.numbers
    return Journal(
        backend,
        reader,
        MemoryFiles(reader, backend),
        caps=Caps(shared="process", durable="none", emits=emits),
        info=info,
        epochs=numbers.epochs,
        ids=NextIds(numbers.next_inbox_id, numbers.next_outbox_id, numbers.next_event_id),
        open_messages=numbers.open_messages,
        clock=clock,
        mode="inline",
        failpoints=failpoints,
    )
