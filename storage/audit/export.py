"""A store as Parquet files with a manifest. Needs Arrow alone, no Spark and no Java.

    DIR/<table>/store=<uuid>/dt=<day>/channel=<name>/part-<number>-<n>.parquet
    DIR/manifest/<uuid>-<number>.json

A second export of the same store into the same folder adds what has changed since the first one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

import apsw
import msgpack

from ...actors.errors import BusError, Code
from .arrow import ParquetFile, Value
from .manifest import Manifest, TablePart, newest, read_manifests, write_manifest
from .snapshot import Snapshot, open_snapshot
from .tables import CONTENT_HASH, TABLES, Growth, Table

_CHUNK_ROWS: Final = 20_000
_MOST_OPEN: Final = 64
"""Partitions written at once; more take turns."""
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
_SEQUENCE: Final = {"inbox": "change_seq", "outbox": "change_seq", "history": "hseq", "event": "id"}

_NOT_SAID: Final = frozenset({"correlation_id", "hops", "bulk", "on_uncertain", "reply_to"})
"""What a body holds beside its content."""

Progress = Callable[[int, int], None]


def export_store(store: Path, folder: Path, *, progress: Progress = lambda _done, _of: None) -> Manifest:
    """Export one store.

    Args:
        store: The store's file; its owner may be writing.
        folder: Of the exports; made if it is not there.
        progress: Told how many rows are done, of how many.
    Returns:
        What was written.
    Raises:
        BusError: as `Look`; STORE_MISMATCH also where the store is older than its last export here.
        BadExport: the folder holds damaged exports.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open_snapshot(store, folder) as snapshot:
        before = _last_export(folder, snapshot)
        return _Export(snapshot, folder, before, progress).run()


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
    return before


class _Export:
    """One export."""

    def __init__(self, snapshot: Snapshot, folder: Path, before: Manifest | None, progress: Progress) -> None:
        self._snapshot = snapshot
        self._folder = folder
        self._before = before
        self._progress = progress
        self._number = 1 if before is None else before.number + 1
        self._done = 0

    def run(self) -> Manifest:
        """Write all tables, then the manifest."""
        ask = self._snapshot.database.execute
        self._of = sum(self._count(table) for table in TABLES.values())
        tables = {name: self._write(table) for name, table in TABLES.items()}
        heads = cast("list[tuple[int, int, bytes]]", ask("SELECT shard, hseq, h FROM shard").fetchall())
        [(change_seq, next_event_id)] = cast(
            "list[tuple[int, int]]", ask("SELECT change_seq, next_event_id FROM store_commit").fetchall()
        )
        meta = self._snapshot.meta
        manifest = Manifest(
            store=meta.uuid,
            number=self._number,
            schema=meta.schema,
            shard_count=meta.shard_count,
            taken_at_us=self._snapshot.taken_at_us,
            commit_seq=meta.commit_seq,
            change_seq=change_seq,
            next_event_id=next_event_id,
            heads={str(shard): (hseq, h.hex()) for shard, hseq, h in heads},
            tables=tables,
        )
        write_manifest(self._folder, manifest)
        return manifest

    def _since(self, table: Table) -> tuple[str, tuple[str | int, ...]]:
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
        return "id >= ?", (before.next_event_id,)

    def _count(self, table: Table) -> int:
        condition, values = self._since(table)
        [(rows,)] = cast(
            "list[tuple[int]]",
            self._snapshot.database.execute(
                f"SELECT count(*) FROM {table.name} WHERE {condition}",  # noqa: S608 (names of our own)
                values,
            ).fetchall(),
        )
        return rows

    def _write(self, table: Table) -> TablePart:
        condition, values = self._since(table)
        day = "NULL" if table.day is None else f"date({table.day} / 1000000, 'unixepoch')"
        channel = "channel" if table.by_channel else "NULL"
        is_hashed = CONTENT_HASH in table.columns
        names = ", ".join(f'"{column.source or column.name}"' for column in table.columns)
        statement = f"SELECT {day}, {channel}, {names} FROM {table.name} WHERE {condition}"  # noqa: S608
        sequence = _SEQUENCE.get(table.name)
        place = None if sequence is None else [column.name for column in table.columns].index(sequence)
        least: int | None = None
        most: int | None = None
        files = _Files(self._folder, table, self._snapshot.meta.uuid, self._number)
        with closing(files):
            for chunk in _chunks(self._snapshot.database, statement, values):
                rows = [_hashed(row) for row in chunk] if is_hashed else chunk
                files.write(rows)
                if place is not None:
                    seqs = [cast("int", row[place + 2]) for row in rows]
                    least = min(seqs) if least is None else min(least, *seqs)
                    most = max(seqs) if most is None else max(most, *seqs)
                self._done += len(rows)
                self._progress(self._done, self._of)
        return TablePart(rows=files.rows, min_seq=least, max_seq=most, files=files.names)


class _Files:
    """The files of one table: one a partition, more where there are too many partitions to keep open."""

    def __init__(self, folder: Path, table: Table, store: str, number: int) -> None:
        self._folder = folder
        self._root = Path(table.name) / f"store={store}"
        self._table = table
        self._number = number
        self._open: dict[tuple[Value, Value], ParquetFile] = {}
        self.names: list[str] = []
        self.rows: int = 0

    def write(self, rows: Sequence[Sequence[Value]]) -> None:
        """Sort rows, of which the first two values are day and channel, into their files."""
        groups: dict[tuple[Value, Value], list[Sequence[Value]]] = {}
        for row in rows:
            groups.setdefault((row[0], row[1]), []).append(row[2:])
        for key, group in groups.items():
            self._file(key).write(group)
        self.rows += len(rows)

    def close(self) -> None:
        """Finish all files."""
        while self._open:
            self._open.pop(next(iter(self._open))).close()

    def _file(self, key: tuple[Value, Value]) -> ParquetFile:
        file = self._open.get(key)
        if file is not None:
            return file
        if len(self._open) == _MOST_OPEN:
            self._open.pop(next(iter(self._open))).close()
        place = self._root
        for partition in self._table.partitions:
            value = key[0] if partition == "dt" else key[1]
            place /= f"{partition}={_NO_VALUE if value is None else quote(str(value), safe='')}"
        name = place / f"part-{self._number:06}-{len(self.names):04}.parquet"
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        file = self._open[key] = ParquetFile(path, self._table.columns)
        self.names.append(name.as_posix())
        return file


def _chunks(
    database: apsw.Connection, statement: str, values: Sequence[str | int]
) -> Iterator[list[tuple[Value, ...]]]:
    cursor = database.execute(statement, values)
    while rows := list(islice(cursor, _CHUNK_ROWS)):
        yield cast("list[tuple[Value, ...]]", rows)


def _hashed(row: Sequence[Value]) -> Sequence[Value]:
    """A row with the hash of what its last value, a send's body, says; None where the body is damaged."""
    *values, body = row
    try:
        record = cast("dict[str, object]", msgpack.unpackb(cast("bytes", body)))
        said = {name: value for name, value in record.items() if name not in _NOT_SAID}
        return (*values, sha256(msgpack.packb(said)).hexdigest())
    except (ValueError, AttributeError, TypeError, msgpack.UnpackException):
        return (*values, None)


__all__ = ["Progress", "export_store"]
