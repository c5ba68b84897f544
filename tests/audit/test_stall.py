"""What a copy costs the one who writes meanwhile."""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path

import apsw
import pytest

from tests.kits.audited import make_chats

pytest.importorskip("pyarrow", reason="the extra `audit` is not installed")

from shardline.storage.audit.snapshot import open_snapshot

pytestmark = [pytest.mark.long, pytest.mark.alone]

MIB = 2**20
STORE_BYTES = 200 * MIB
COPIES = 5
ALONE = 300
"""Commits before the first copy."""
MOST_S = 0.05
"""What a copy of 200 MiB may add to a commit beside it: half of what is promised."""


class Writer:
    """Commits again and again, as fast as it can, and notes how long each commit took."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.has_begun = threading.Event()
        self.spans: list[tuple[float, float]] = []
        """Beginning and end of each transaction."""

    def __enter__(self) -> Writer:
        self._thread.start()
        assert self.has_begun.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def longest_s(self, begin: float, end: float) -> float:
        """The longest transaction that touches a stretch of time."""
        return max(to - since for since, to in self.spans if to >= begin and since <= end)

    def _write(self) -> None:
        database = apsw.Connection(str(self._store))
        database.set_busy_timeout(10_000)
        # As the journal of a bot writes; checkpoints are made by others.
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        number = 0
        while not self._stop.is_set():
            begun = time.perf_counter()
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE store_commit SET commit_seq = commit_seq + 1")
            # Pages all over the file: whoever copies page by page would begin again and again.
            database.execute(
                "UPDATE ballast SET body = randomblob(4000) WHERE id = ?", (number % 50_000 + 1,)
            )
            database.execute("COMMIT")
            self.spans.append((begun, time.perf_counter()))
            number += 7_919
            if len(self.spans) == ALONE:
                self.has_begun.set()
        database.close()


def test_a_writer_does_not_wait_for_a_copy(tmp_path: Path) -> None:
    """Neither a lock nor the disk: what the copy writes is not synced while the writer syncs its commits."""
    store = tmp_path / "a.db"
    make_chats(store, chats=1)
    database = apsw.Connection(str(store))
    database.execute("CREATE TABLE ballast(id INTEGER PRIMARY KEY, body BLOB)")
    database.execute(
        "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 54000)"
        " INSERT INTO ballast SELECT id, randomblob(4000) FROM n"
    )
    database.close()
    assert store.stat().st_size > STORE_BYTES
    stalls: list[float] = []
    commits: list[int] = []
    with Writer(store) as writer:
        alone_s = max(end - begin for begin, end in writer.spans[:ALONE])
        for _ in range(COPIES):
            before = len(writer.spans)
            begin = time.perf_counter()
            with open_snapshot(store, tmp_path) as snapshot:
                end = time.perf_counter()
                assert snapshot.path.stat().st_size > STORE_BYTES
            commits.append(len(writer.spans) - before)
            stalls.append(writer.longest_s(begin, end))

    assert min(commits) > 1
    # A disk has its moments, and a commit on it takes as long as it takes without any copy.
    assert statistics.median(stalls) <= alone_s + MOST_S, stalls
