"""`spark.readStream.format("shardline")`: the history of live stores as it grows.

An offset names, for each file, the store's uuid and where each of its chains ended. A file that is another store's, or
an older state of the same, is an error: counts over two histories would be of neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import apsw
import attrs
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ..sqlite.look import Look
from .arrow import RecordBatch, with_text
from .manifest import BadExport
from .scan import Stretch, scan
from .tables import TABLES

_PART_IDS: Final = 20_000
"""Rows that one task reads in one statement, which is one short transaction beside the owner."""
_NEW: Final = (
    "hseq > coalesce(json_extract(?, '$.\"' || shard || '\"'), 0)"
    " AND hseq <= coalesce(json_extract(?, '$.\"' || shard || '\"'), 0)"
)

Offset = dict[str, dict[str, str | int]]
"""File -> `store`, `id` and `last` of the newest row, `heads` (JSON: shard -> hseq)."""


@attrs.frozen(kw_only=True)
class _Part:
    """What one task reads."""

    path: str
    store: str
    stretch: Stretch
    after: str
    upto: str


class HistoryStream(DataSourceStreamReader):
    """Follows the history of some stores.

    Args:
        paths: The files; their owners may be writing.
        names: The columns that are asked for.
    """

    def __init__(self, paths: Sequence[Path], names: Sequence[str]) -> None:
        self._paths = list(paths)
        self._names = list(names)

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's own names, here and below)
        """Before everything."""
        offset: Offset = {}
        for path in self._paths:
            with Look(path) as look:
                offset[str(path)] = {"store": look.meta.uuid, "id": 0, "last": "", "heads": "{}"}
        return offset

    # Spark asks a source that has no limits without arguments.
    def latestOffset(self) -> Offset:  # type: ignore[override] # pyright: ignore[reportIncompatibleMethodOverride]  # noqa: N802
        """Where each store is now."""
        return {str(path): read_end(path) for path in self._paths}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """What was added between two offsets.

        Raises:
            BadExport: a file is another store's, or an older state of its own.
        """
        parts: list[InputPartition] = []
        for path, to in end.items():
            since = start.get(path) or {"store": to["store"], "id": 0, "last": "", "heads": "{}"}
            first = _check_same(Path(path), since, to) + 1
            last = cast("int", to["id"])
            parts += [
                InputPartition(
                    _Part(
                        path=path,
                        store=str(to["store"]),
                        stretch=Stretch(first=at, last=min(at + _PART_IDS - 1, last)),
                        after=str(since["heads"]),
                        upto=str(to["heads"]),
                    )
                )
                for at in range(first, last + 1, _PART_IDS)
            ]
        return parts

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:  # pyright: ignore[reportIncompatibleMethodOverride]  # pyarrow has no types
        """One part, beside the owner of the store."""
        part: object = partition.value
        if not isinstance(part, _Part):
            return
        table = TABLES["history"]
        columns = [column for column in table.columns if column.name in self._names] or [table.columns[0]]

        def ask(database: apsw.Connection) -> list[RecordBatch]:
            batches = scan(
                database,
                table,
                columns,
                part.stretch,
                condition=_NEW,
                values=(part.after, part.upto),
            )
            named = [with_text(batch, "store", part.store) for batch in batches]
            return [one for batch in named for one in batch.select(self._names).to_batches()]

        with Look(Path(part.path)) as look:
            if look.meta.uuid != part.store:
                raise BadExport(f"{part.path} was replaced while it was read")
            yield from look.read(ask)


def read_end(path: Path) -> dict[str, str | int]:
    """Where the history of a store ends, in one statement."""

    def ask(database: apsw.Connection) -> list[tuple[str, int, str | None, str]]:
        return cast(
            "list[tuple[str, int, str | None, str]]",
            database.execute(
                "SELECT (SELECT uuid FROM store_meta), coalesce(max(id), 0),"
                " max(id) || ':' || shard || ':' || hseq || ':' || hex(h),"
                " (SELECT json_group_object(shard, hseq) FROM shard) FROM history"
            ).fetchall(),
        )

    with Look(path) as look:
        [(store, newest, last, heads)] = look.read(ask)
    return {"store": store, "id": newest, "last": last or "", "heads": heads}


def _check_same(path: Path, since: Mapping[str, str | int], to: Mapping[str, str | int]) -> int:
    """That a store is the one that was read before; the id after which what is new stands."""
    before, now = _heads(since), _heads(to)
    back = next((shard for shard, hseq in before.items() if now.get(shard, 0) < hseq), None)
    number, shard, hseq, h = str(since["last"] or "0:0:0:").split(":")

    def ask(database: apsw.Connection) -> list[tuple[int, int, str]]:
        return cast(
            "list[tuple[int, int, str]]",
            database.execute(
                "SELECT shard, hseq, hex(h) FROM history WHERE id = ?", (int(number),)
            ).fetchall(),
        )

    with Look(path) as look:
        # Spark may ask for what is between two offsets of a checkpoint, so what counts is the file as it is now.
        if look.meta.uuid != since["store"]:
            raise BadExport(
                f"{path} is store {look.meta.uuid}, the checkpoint is of {since['store']}: it was replaced;"
                " begin anew in another folder"
            )
        found = look.read(ask)
    is_same_row = bool(found) and found[0][:2] == (int(shard), int(hseq))
    if back is not None or (is_same_row and found[0][2] != h):
        raise BadExport(
            f"{path} was put back to an older state, or has another history than the checkpoint says; begin anew in"
            " another folder"
        )
    # After a prune of everything ids may begin anew; the numbers of the chains never do.
    return int(number) if is_same_row else 0


def _heads(offset: Mapping[str, str | int]) -> dict[str, int]:
    return cast("dict[str, int]", json.loads(str(offset["heads"])))
