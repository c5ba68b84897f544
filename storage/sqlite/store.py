"""Open a store in a file."""

from __future__ import annotations

import os
from typing import Final, Literal

import apsw
import attrs
import structlog

from ...actors.clock import Clock, SystemClock
from ...actors.errors import Code
from ...actors.failpoints import NO_FAILPOINTS, FailPoints
from ..condition import LogState, Moved
from ..journal import DEFAULT_PASSES, Journal, Mode, NextIds, check_clock
from ..port import Caps
from .backend import Backend
from .checkpoint import Checkpointer
from .database import FileSource
from .faults import store_error
from .files import Places
from .lock import OwnerLock
from .opening import open_file
from .paths import store_path
from .reader import SqliteReader
from .settings import LOCK_WAIT_S, Durability, Emits, Settings

_log: Final[structlog.typing.FilteringBoundLogger] = structlog.get_logger()


class StoreFiles:
    """What a journal over a file holds open. The writer is closed last: as SQLite's last it takes the log with it."""

    def __init__(self, source: FileSource, backend: Backend, lock: OwnerLock) -> None:
        self._source = source
        self._backend = backend
        self._lock = lock
        self._reader: SqliteReader | None = None
        self._checkpointer: Checkpointer | None = None
        self._places: Places | None = None

    def start(self, shard_count: int) -> SqliteReader:
        """Begin reading and copying the log.

        Raises:
            apsw.Error: to be closed.
        """
        self._places = Places.of(self._source.path)
        self._checkpointer = Checkpointer(self._source)
        self._reader = SqliteReader(self._source.connect_reader(), shard_count, owned=True)
        return self._reader

    def log(self) -> LogState:
        """See `Files`."""
        if self._checkpointer is None:
            return LogState()
        is_own = self._reader is not None and self._reader.is_reading
        return attrs.evolve(self._checkpointer.log(), is_own=is_own)

    def moved(self) -> Moved | None:
        """See `Files`."""
        return None if self._places is None else self._places.moved()

    def tell(self, trouble: Code | None) -> None:
        """See `Files`."""
        self._lock.tell(trouble)

    def close_reader(self) -> None:
        """See `Files`."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def close(self, *, closed_at_us: int | None) -> None:
        """See `Files`."""
        if self._checkpointer is not None:
            self._checkpointer.stop()
        if self.moved() == "file":
            # All is written, and the next start does not find it.
            _log.error("store.moved", path=str(self._source.path))
        self._backend.close(closed_at_us=closed_at_us)
        # Trouble is believed of an owner alone; how far the store is, is kept.
        self._lock.tell(None)
        self._lock.release()


def open_sqlite(
    path: str | os.PathLike[str],
    *,
    shard_count: int = 16,
    durability: Durability = "full",
    mode: Mode = "thread",
    lane_policy: str = "conversation",
    cache_bytes: int = 2 * 1024 * 1024,
    clock: Clock | None = None,
    vfs: str | None = None,
    emits: Emits = "atomic",
    failpoints: FailPoints = NO_FAILPOINTS,
    passes: int = DEFAULT_PASSES,
    recovers: bool = True,
    unsafe_filesystem: Literal["refuse", "allow"] = "refuse",
) -> Journal:
    """Open a store file, or make one, and become its only owner. Called inside a trio run.

    Args:
        path: A regular file or none yet; it, its log and `<path>.lock` get mode 0600.
        shard_count: Must be what the store was made with.
        durability: "full" syncs each commit; "normal" may lose the last ones to a power cut, never to a kill.
        mode: "thread" writes on a thread of its own; "inline" on the trio thread (a mock clock needs it).
        lane_policy: Must be what the store was made with.
        cache_bytes: Page cache of the writer.
        clock: Time of opening and closing; None is the machine's.
        vfs: Name of a registered SQLite VFS.
        emits: "relayed" leaves emits to a relay, as a backend without transactions over homes would.
        failpoints: For tests.
        passes: Rounds of the trio loop after a commit under "full"; see `ThreadDrive`.
        unsafe_filesystem: Whether it may lie where a write-ahead log is known to break (NFS, SMB, 9p, virtiofs, most of
            FUSE).
        recovers: False leaves what a crash left to the next opening, which must learn of it.
    Returns:
        A journal that writes once `run` runs; `close` it if it never does.
    Raises:
        BusError: STORE_LOCKED within a second if it has an owner; UNSAFE_FILESYSTEM, SCHEMA_TOO_NEW, STORE_MISMATCH,
            STORE_CORRUPT, STORE_BUSY, STORE_FULL, STORE_IO; INVALID_MESSAGE, no path of a file, or one that is no
            UTF-8. The file is as it was.
    """
    if mode == "thread":
        check_clock()
    clock = clock or SystemClock()
    settings = Settings(
        shard_count=shard_count,
        lane_policy=lane_policy,
        durability=durability,
        emits=emits,
        cache_bytes=cache_bytes,
        # A visitor asks again by itself, and must never hold up an owner that starts.
        lock_wait_s=LOCK_WAIT_S if recovers else 0.0,
        vfs=vfs,
        allows_unsafe=unsafe_filesystem == "allow",
    )
    opened = open_file(store_path(path), settings, clock.wall_us())
    backend = Backend(
        opened.source,
        opened.connection,
        instance=opened.info.instance,
        atomic=emits == "atomic",
        failpoints=failpoints,
        leaves_clean=recovers or opened.info.clean,
        noted=opened.lock.note_commit,
    )
    files = StoreFiles(opened.source, backend, opened.lock)
    try:
        reader = files.start(shard_count)
    except BaseException as error:
        files.close(closed_at_us=None)
        if isinstance(error, apsw.Error):
            raise store_error(error, f"{path} cannot be opened") from error
        raise
    numbers = backend.numbers
    return Journal(
        backend,
        reader,
        files,
        caps=Caps(shared="host", durable="fsync" if durability == "full" else "process", emits=emits),
        info=opened.info,
        epochs=numbers.epochs,
        ids=NextIds(numbers.next_inbox_id, numbers.next_outbox_id, numbers.next_event_id),
        open_messages=numbers.open_messages,
        clock=clock,
        mode=mode,
        passes=passes if durability == "full" else 0,
        failpoints=failpoints,
    )
