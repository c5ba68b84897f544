"""A store as Parquet files with a manifest. Needs Arrow alone, no Spark and no Java.

    DIR/<table>/store=<uuid>/dt=<day>/channel=<name>/part-<number>-<n>-<n>.parquet
    DIR/manifest/<uuid>-<number>.json

A second export of the same store into the same folder adds what has changed since the first one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Condition
from typing import Final, cast
from urllib.parse import quote

import apsw

from ...actors.errors import BusError, Code
from ..sqlite.faults import store_error
from .accounts import read_accounts
from .arrow import Batch, ParquetFile, bounds, split
from .manifest import Manifest, TablePart, columns_of, newest, read_manifests, write_manifest
from .scan import Bound, Stretch, open_copy, scan, stretches
from .snapshot import Snapshot, open_snapshot
from .tables import TABLES, Growth, Table

_STRETCH_IDS: Final = 200_000
"""Rows that one thread writes at a time."""
_THREADS: Final = 4
_MOST_OPEN: Final = 64
"""Partitions written at once; more take turns."""
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
_SEQUENCE: Final = {"inbox": "change_seq", "outbox": "change_seq", "history": "hseq", "event": "id"}
_LOGS: Final = "SELECT topic || '/' || part, max(off) FROM event GROUP BY topic, part"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Progress = Callable[[int, int], None]


def export_store(store: Path, folder: Path, *, progress: Progress = lambda _done, _of: None) -> Manifest:
    """Export one store.

    Args:
        store: The store's file; its owner may be writing.
        folder: Of the exports; made if it is not there.
        progress: Told how many rows are looked at, of about how many.
    Returns:
        What was written.
    Raises:
        BusError: as `Look`; STORE_MISMATCH also where the store is older than its last export here, or has lost history
            since; STORE_CORRUPT also where a table cannot be read.
        BadExport: the folder holds damaged exports.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open_snapshot(store, folder) as snapshot:
        try:
            before = _last_export(folder, snapshot)
            return _Export(snapshot, folder, before, progress).run()
        except apsw.Error as error:
            raise store_error(
                error, "the copy cannot be read; `shardline doctor` looks the store over"
            ) from error


def _last_export(folder: Path, snapshot: Snapshot) -> Manifest | None:
    if not (folder / "manifest").is_dir():
        return None
    before = newest(read_manifests(folder)).get(snapshot.meta.uuid)
    if before is not None and before.commit_seq > snapshot.meta.commit_seq:
        raise BusError(
            Code.STORE_MISMATCH,
            f"the store is at commit {snapshot.meta.commit_seq}, its last export in {folder} at"
            f" {before.commit_seq}: it was put back to an older state; export it into a new folder",
        )
    if before is not None and _is_torn(snapshot, before):
        # A hole in the folder would be found by every later audit, as a fault of the bot.
        raise BusError(
            Code.STORE_MISMATCH,
            f"retention has taken history that no export in {folder} has seen; export it into a new folder, and more"
            " often than retention takes",
        )
    return before


def _is_torn(snapshot: Snapshot, before: Manifest) -> bool:
    """Whether the history of a shard does not go on where its last export ended."""
    for shard, head in _pairs(snapshot, "SELECT shard, hseq FROM shard"):
        seen = before.heads.get(str(shard), (0, ""))[0]
        # Its rows lie in the order of their numbers, so the lowest one is soon found; no index leads to it.
        first = "SELECT shard, hseq FROM history WHERE shard = ? ORDER BY id LIMIT 1"
        if head > seen and not any(hseq <= seen + 1 for _, hseq in _pairs(snapshot, first, shard)):
            return True
    return False


def _pairs(snapshot: Snapshot, sql: str, *values: int) -> list[tuple[int, int]]:
    return cast("list[tuple[int, int]]", snapshot.database.execute(sql, values).fetchall())


class _Export:
    """One export."""

    def __init__(self, snapshot: Snapshot, folder: Path, before: Manifest | None, progress: Progress) -> None:
        self._snapshot = snapshot
        self._folder = folder
        self._before = before
        self._progress = progress
        self._number = 1 if before is None else before.number + 1
        self._done = 0
        self._of = 0
        self._ended = Condition()
        self._writing = 0
        self._is_over = False

    def run(self) -> Manifest:
        """Write all tables, then the manifest."""
        ask = self._snapshot.database.execute
        parts = [
            (table, stretch)
            for table in TABLES.values()
            for stretch in stretches(self._snapshot.database, table, _STRETCH_IDS)
        ]
        self._of = sum(stretch.length for _, stretch in parts)
        # SQLite reads, and Arrow parses and writes, without Python's lock.
        pool = ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1))
        try:
            written = list(pool.map(self._take_part, range(len(parts)), *zip(*parts, strict=True)))
            pool.shutdown()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # A thread whose start a Ctrl-C fell into writes, and the pool does not know it.
            with self._ended:
                self._is_over = True
                self._ended.wait_for(lambda: not self._writing)
            self._remove()
            raise
        tables = {
            name: _joined(
                name, [one for (table, _), one in zip(parts, written, strict=True) if table.name == name]
            )
            for name in TABLES
        }
        heads = cast("list[tuple[int, int, bytes]]", ask("SELECT shard, hseq, h FROM shard").fetchall())
        [(change_seq,)] = cast("list[tuple[int]]", ask("SELECT change_seq FROM store_commit").fetchall())
        logs = cast("list[tuple[str, int]]", ask(_LOGS).fetchall())
        meta = self._snapshot.meta
        manifest = Manifest(
            store=meta.uuid,
            number=self._number,
            schema=meta.schema,
            shard_count=meta.shard_count,
            taken_at_us=self._snapshot.taken_at_us,
            commit_seq=meta.commit_seq,
            change_seq=change_seq,
            heads={str(shard): (hseq, h.hex()) for shard, hseq, h in heads},
            logs=dict(logs),
            tables=tables,
            accounts=read_accounts(self._snapshot.database),
        )
        write_manifest(self._folder, manifest)
        return manifest

    def _remove(self) -> None:
        """Take away what no manifest will name."""
        own = f"store={self._snapshot.meta.uuid}"
        for name in TABLES:
            for path in (self._folder / name / own).rglob(f"part-{self._number:06}-*.parquet"):
                path.unlink()

    def _since(self, table: Table) -> tuple[str, tuple[Bound, ...]]:
        """Which rows are new: a condition and its values."""
        before = self._before
        if before is None or table.growth is Growth.WHOLE:
            return "1", ()
        if table.growth is Growth.CHANGES:
            return "change_seq > ?", (before.change_seq,)
        if table.name == "history":
            # Ids of this file may be used again after a prune; the numbers of the chains never are.
            known = json.dumps({shard: head[0] for shard, head in before.heads.items()})
            return "hseq > coalesce(json_extract(?, '$.\"' || shard || '\"'), 0)", (known,)
        # An event takes its place in the log later than its id: ids may still come below one that was exported.
        return "off > coalesce(json_extract(?, '$.\"' || topic || '/' || part || '\"'), -1)", (
            json.dumps(before.logs),
        )

    def _take_part(self, job: int, table: Table, stretch: Stretch) -> TablePart:
        """Write a part, unless the export is over; nothing is taken away while one is written."""
        with self._ended:
            if self._is_over:
                raise CancelledError
            self._writing += 1
        try:
            return self._write(job, table, stretch)
        except ValueError as error:
            # Arrow's own, too; of a text that is no UTF-8.
            raise BusError(
                Code.STORE_CORRUPT,
                f"{table.name} holds a value that no store writes; restore a backup copy: {error}",
            ) from error
        finally:
            with self._ended:
                self._writing -= 1
                self._ended.notify_all()

    def _write(self, job: int, table: Table, stretch: Stretch) -> TablePart:
        condition, values = self._since(table)
        sequence = _SEQUENCE.get(table.name)
        day = "''" if table.day is None else f"({table.day} / 86400000000)"
        channel = "coalesce(channel,'')" if table.by_channel else "''"
        least: list[int] = []
        most: list[int] = []
        name = f"part-{self._number:06}-{job:04}"
        files = _Files(self._folder, table, self._snapshot.meta.uuid, name)
        with closing(files), open_copy(self._snapshot.path) as database:
            batches = scan(
                database,
                table,
                table.columns,
                stretch,
                condition=condition,
                values=values,
                beside={"_key": f"{day} || '/' || {channel}"},
            )
            for batch in batches:
                files.write(batch)
                if sequence is not None:
                    low, high = bounds(batch, sequence)
                    least += [] if low is None else [low]
                    most += [] if high is None else [high]
        with self._ended:
            self._done += stretch.length
            self._progress(self._done, self._of)
        return TablePart(
            rows=files.rows,
            min_seq=min(least, default=None),
            max_seq=max(most, default=None),
            files=files.names,
            columns=columns_of(table.name),
        )


def _joined(table: str, parts: list[TablePart]) -> TablePart:
    return TablePart(
        rows=sum(part.rows for part in parts),
        min_seq=min((part.min_seq for part in parts if part.min_seq is not None), default=None),
        max_seq=max((part.max_seq for part in parts if part.max_seq is not None), default=None),
        files=[name for part in parts for name in part.files],
        columns=columns_of(table),
    )


class _Files:
    """The files of a part of a table: one a partition, more where there are too many partitions to keep open."""

    def __init__(self, folder: Path, table: Table, store: str, name: str) -> None:
        self._folder = folder
        self._root = Path(table.name) / f"store={store}"
        self._table = table
        self._name = name
        self._open: dict[str, ParquetFile] = {}
        self.names: list[str] = []
        self.rows: int = 0

    def write(self, batch: Batch) -> None:
        """Sort rows by `_key`, which is day and channel, into their files."""
        self.rows += batch.num_rows
        for key, rows in split(batch, "_key"):
            self._file(key).write(rows)

    def close(self) -> None:
        """Finish all files."""
        while self._open:
            self._open.pop(next(iter(self._open))).close()

    def _file(self, key: str) -> ParquetFile:
        file = self._open.get(key)
        if file is not None:
            return file
        if len(self._open) == _MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()
        day, _, channel = key.partition("/")
        values = {
            "dt": _date(int(day)) if day else _NO_VALUE,
            "channel": quote(channel, safe="") if channel else _NO_VALUE,
        }
        place = self._root.joinpath(*(f"{one}={values[one]}" for one in self._table.partitions))
        name = place / f"{self._name}-{len(self.names):04}.parquet"
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        file = self._open[key] = ParquetFile(path, self._table.columns)
        self.names.append(name.as_posix())
        return file


def _date(day: int) -> str:
    """A day as the name of its folder; one that no calendar has is none."""
    try:
        return str((_EPOCH + timedelta(days=day)).date())
    except OverflowError:
        return _NO_VALUE


__all__ = ["Progress", "export_store"]
