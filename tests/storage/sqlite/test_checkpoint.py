"""The log is copied into the database beside the writer, and does not grow for ever (field report 41)."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from shardline.storage.sqlite import checkpoint
from shardline.storage.sqlite.checkpoint import Checkpointer
from shardline.storage.sqlite.database import FileSource
from shardline.storage.sqlite.settings import Settings


class WatchedCheckpointer(Checkpointer):
    """Says when a checkpoint is over."""

    def __init__(self, source: FileSource) -> None:
        self.over = threading.Semaphore(0)
        super().__init__(source)

    def checkpoint(self) -> None:
        super().checkpoint()
        self.over.release()


def size_of_log(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


def test_log_that_was_never_begun_anew_is_emptied_at_its_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes without a pause: no checkpoint is ever complete when the next one begins."""
    monkeypatch.setattr(checkpoint, "CHECKPOINT_PAGES", 60)
    monkeypatch.setattr(checkpoint, "MAX_LOG_PAGES", 60)
    path = tmp_path / "bot.db"
    path.touch()
    source = FileSource(path, Settings())
    writer = source.connect()
    writer.execute("CREATE TABLE t (a BLOB)")
    checkpointer = WatchedCheckpointer(source)
    writer.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert size_of_log(path) > 100_000
    assert checkpointer.runs == 0
    writer.execute("INSERT INTO t VALUES (zeroblob(200000))")
    assert checkpointer.over.acquire(timeout=60)

    assert (checkpointer.runs, checkpointer.busy) == (1, 0)
    assert size_of_log(path) == 0
    checkpointer.stop()
    source.discard(writer)


def test_log_is_emptied_long_before_the_64_mib_it_may_have(tmp_path: Path) -> None:
    """What is written while a slow disk copies, or while readers are in the way of a few tries, comes on top."""
    path = tmp_path / "bot.db"
    path.touch()
    source = FileSource(path, Settings())
    writer = source.connect()
    writer.execute("CREATE TABLE t (a BLOB)")
    checkpointer = WatchedCheckpointer(source)
    writer.execute("INSERT INTO t VALUES (zeroblob(?))", (33 * 1024 * 1024,))
    assert checkpointer.over.acquire(timeout=60)

    assert size_of_log(path) == 0
    checkpointer.stop()
    source.discard(writer)


def test_writer_that_has_its_lock_at_nearly_every_moment_gives_it_up_for_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches follow one another without a gap; a log that waited for one grew as long as they did."""
    monkeypatch.setattr(checkpoint, "CHECKPOINT_PAGES", 100)
    monkeypatch.setattr(checkpoint, "MAX_LOG_PAGES", 500)
    path = tmp_path / "bot.db"
    path.touch()
    source = FileSource(path, Settings())
    writer = source.connect()
    writer.execute("CREATE TABLE t (a BLOB)")
    checkpointer = Checkpointer(source)
    sizes: list[int] = []
    for _ in range(300):
        writer.execute("BEGIN IMMEDIATE")
        for _ in range(100):
            writer.execute("INSERT INTO t VALUES (zeroblob(4000))")
        writer.execute("COMMIT")
        sizes.append(checkpointer.log_pages)

    assert sum(size < before for before, size in pairwise(sizes)) >= 10
    checkpointer.stop()
    source.discard(writer)


def test_reader_that_never_ends_is_counted_and_the_log_emptied_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "CHECKPOINT_PAGES", 10)
    monkeypatch.setattr(checkpoint, "MAX_LOG_PAGES", 40)
    path = tmp_path / "bot.db"
    path.touch()
    source = FileSource(path, Settings())
    writer = source.connect()
    writer.execute("CREATE TABLE t (a BLOB)")
    checkpointer = WatchedCheckpointer(source)
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM t").fetchall()
    writer.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert checkpointer.over.acquire(timeout=60)
    writer.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert checkpointer.over.acquire(timeout=60)

    assert checkpointer.busy == checkpointer.runs == 2
    assert checkpointer.log_pages > 40
    log_bytes = size_of_log(path)
    reader.execute("COMMIT")
    writer.execute("INSERT INTO t VALUES (zeroblob(10))")
    assert checkpointer.over.acquire(timeout=60)
    assert checkpointer.busy == 2
    assert size_of_log(path) == 0 < log_bytes
    checkpointer.stop()
    checkpointer.stop()
    reader.close()
    source.discard(writer)
