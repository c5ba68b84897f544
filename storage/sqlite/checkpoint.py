"""Copies the write-ahead log into the database on a thread of its own, so that no commit waits for it."""

from __future__ import annotations

import threading
import time
from typing import Final

import apsw
import structlog

from ..condition import LogState
from .database import FileSource, close_connection
from .faults import store_error
from .settings import CHECKPOINT_PAGES, MAX_LOG_PAGES, PAGE_BYTES

_BUSY_TIMEOUT_MS: Final = 500
"""Emptying the log waits this long for the writer's commit and for readers, and holds the writer up meanwhile."""

_log: Final[structlog.typing.FilteringBoundLogger] = structlog.get_logger()


class Checkpointer:
    """The checkpoint thread of one store file.

    Attributes:
        log_pages: Length of the log after the last commit.
        runs: Checkpoints so far.
        busy: How many of them a reader or a writer kept from finishing.
    """

    def __init__(self, source: FileSource) -> None:
        self.log_pages = 0
        self.runs = 0
        self.busy = 0
        self._empty_at = MAX_LOG_PAGES
        self._pinned_since_s: float | None = None
        self._kick = threading.Event()
        self._may_write = threading.Event()
        self._may_write.set()
        self._stopping = False
        self._connection = source.connect_checkpointer()
        self._connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
        self._thread = threading.Thread(target=self._run, name="shardline-checkpoint", daemon=True)
        self._thread.start()
        source.on_log = self._note

    def log(self) -> LogState:
        """How the log is; from any thread."""
        since_s = self._pinned_since_s
        # Never 0 while it is pinned: the clock may not have moved on yet.
        pinned_s = 0.0 if since_s is None else max(0.001, time.monotonic() - since_s)
        return LogState(self.log_pages * PAGE_BYTES, pinned_s)

    def stop(self) -> None:
        """End the thread and its connection; a second call does nothing."""
        self._stopping = True
        self._kick.set()
        self._thread.join()
        close_connection(self._connection)

    def _note(self, pages: int) -> None:
        """Behind each commit, on the writer's thread, which has no lock then."""
        self.log_pages = pages
        if pages >= CHECKPOINT_PAGES:
            self._kick.set()
        self._may_write.wait()

    def _run(self) -> None:
        while True:
            self._kick.wait()
            self._kick.clear()
            if self._stopping:
                return
            self.checkpoint()

    def checkpoint(self) -> None:
        """Copy what can be copied now; on the thread."""
        self.runs += 1
        try:
            # Copies what it can and blocks nobody.
            pages, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._note_pin(is_pinned=copied < pages)
            if self.log_pages >= self._empty_at and copied == pages:
                # Writes without a pause kept the log from being begun anew: empty it. The writer waits meanwhile, for
                # the little that is left to copy and for readers; so a reader that stays is not waited for often.
                self._empty_at = self.log_pages + CHECKPOINT_PAGES
                self._empty()
                self._empty_at = MAX_LOG_PAGES
        except apsw.BusyError:
            self.busy += 1
        except apsw.Error as error:
            # The writer meets the same disk and decides; here it is only told.
            failure = store_error(error, "the log cannot be copied into the database")
            _log.warning("store.checkpoint_failed", bus_error_code=failure.code, error=failure.message)
        else:
            self.busy += copied < pages

    def _empty(self) -> None:
        # SQLite looks for the writer's lock at intervals, and a busy writer has it at nearly every moment.
        self._may_write.clear()
        try:
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            self._may_write.set()

    def _note_pin(self, *, is_pinned: bool) -> None:
        """A reader that stays lets the log grow; what it has grown to is given back once the reader has ended."""
        if not is_pinned:
            self._pinned_since_s = None
        elif self._pinned_since_s is None:
            self._pinned_since_s = time.monotonic()
        if is_pinned:
            self._empty_at = min(self._empty_at, MAX_LOG_PAGES)
