"""`spark.read.format("shardline")`: copies of stores as tables, read by SQLite in Spark's workers.

    spark.dataSource.register(StoreSource)
    spark.read.format("shardline").option("table", "outbox").option("since", "2026-01-01").load("copies/*.db")

It offers no `pushFilters`: Spark 4.3 keeps what one query pushed for the next one, which then lacks rows. The options
`where`, `since` and `until` are private to one `load`. `readStream` follows live stores: `stream.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from typing import Final

import apsw
import attrs
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from ..sqlite.resting import is_at_rest
from .arrow import RecordBatch, with_text
from .manifest import BadExport
from .scan import Bound, Stretch, open_copy, scan, stretches
from .schemas import spark_schema
from .stores import name_stores
from .stream import HistoryStream
from .tables import CHANNEL, TABLES, Column, Table

FORMAT: Final = "shardline"
_PART_IDS: Final = 200_000
"""Rows that one task reads."""


class StoreSource(DataSource):
    """The format `shardline`.

    Options: `path`, files or patterns, one a line; `table`, one of the exported ones, else `outbox`; `where`, SQL over
    its columns; `since` (inclusive) and `until` (not), RFC 3339 or microseconds since 1970.
    """

    @classmethod
    def name(cls) -> str:
        """Its word in `format`."""
        return FORMAT

    def schema(self) -> StructType:
        """All columns of the table, and `store`; give `load` a schema of its own to read fewer."""
        table = _table(self.options)
        names = [*(column.name for column in columns_of(table)), "store"]
        types = {field.name: field.dataType for field in spark_schema(table).fields}
        return StructType([StructField(name, types.get(name, StringType())) for name in names])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Of copies."""
        return _Reader(self.options, schema.names)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's own name)
        """Of live stores."""
        if _table(self.options).name != "history":
            raise BadExport("only the history can be followed: it is what a store only adds to")
        return HistoryStream(find_stores(self.options), schema.names)


@attrs.frozen(kw_only=True)
class _Place:
    """What one task reads."""

    path: str
    store: str
    stretch: Stretch


class _Reader(DataSourceReader):
    """Plans on the driver, reads in the workers."""

    def __init__(self, options: MutableMapping[str, str], names: Sequence[str]) -> None:
        self._table_name = _table(options).name
        self._paths = find_stores(options)
        self._names = list(names)
        self._condition, self._values = _condition(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Some for each file; a file that somebody has open is refused, and so are two of one store."""
        table = TABLES[self._table_name]
        places: list[InputPartition] = []
        for path in self._paths:
            check_copy(path)
        for store, path in name_stores(self._paths).items():
            with open_copy(path) as database:
                places += [
                    InputPartition(_Place(path=str(path), store=store, stretch=stretch))
                    for stretch in stretches(database, table, _PART_IDS)
                ]
        # Without any Spark would ask for a read of nothing.
        return places or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:  # pyright: ignore[reportIncompatibleMethodOverride]  # pyarrow has no types
        """One part, as record batches."""
        place: object = partition.value
        if not isinstance(place, _Place):
            return
        table = TABLES[self._table_name]
        with open_copy(Path(place.path)) as database:
            yield from record_batches(
                database, table, self._names, place.store, place.stretch, self._condition, self._values
            )


def record_batches(
    database: apsw.Connection,
    table: Table,
    names: Sequence[str],
    store: str,
    stretch: Stretch,
    condition: str,
    values: Sequence[Bound],
) -> Iterator[RecordBatch]:
    """A part of a table of one store in the columns that are asked for."""
    columns = [column for column in columns_of(table) if column.name in names]
    # A query that only counts asks for no column at all; one is read all the same.
    for batch in scan(
        database, table, columns or [table.columns[0]], stretch, condition=condition, values=values
    ):
        yield from with_text(batch, "store", store).select(names).to_batches()


def columns_of(table: Table) -> tuple[Column, ...]:
    """What is in the file itself; an export has the channel in the names of its folders."""
    return (*table.columns, CHANNEL) if table.by_channel else table.columns


def find_stores(options: MutableMapping[str, str]) -> list[Path]:
    """The files of the option `path`.

    Raises:
        BadExport: there is none.
    """
    found: list[Path] = []
    for pattern in options.get("path", "").splitlines():
        # A name may hold what else stands for others.
        names = [pattern] if Path(pattern).is_file() else sorted(glob(pattern))
        some = [Path(name).absolute() for name in names if Path(name).is_file()]
        if not some:
            raise BadExport(f"there is no store {pattern!r}")
        found += some
    if not found:
        raise BadExport("the option `path` names no store")
    return list(dict.fromkeys(found))


def check_copy(path: Path) -> None:
    """Refuse a store that somebody has open: parts of it would be read at different moments.

    Raises:
        BadExport: it is open, or was not closed.
    """
    if not is_at_rest(path):
        raise BadExport(f"{path} is open; make a copy of it: shardline audit copy {path} --to COPY")


def _table(options: MutableMapping[str, str]) -> Table:
    name = options.get("table", "outbox")
    if name not in TABLES:
        raise BadExport(f"there is no table {name!r}; there are {', '.join(TABLES)}")
    return TABLES[name]


def _condition(options: MutableMapping[str, str]) -> tuple[str, tuple[int, ...]]:
    table = _table(options)
    parts: list[str] = []
    values: list[int] = []
    if options.get("where"):
        parts.append(f"({options['where']})")
    for name, sign in (("since", ">="), ("until", "<")):
        given = options.get(name)
        if given:
            if table.day is None:
                raise BadExport(f"{table.name} has no time for the option {name}")
            parts.append(f"{table.day} {sign} ?")
            values.append(_time_us(name, given))
    return " AND ".join(parts) or "1", tuple(values)


def _time_us(name: str, text: str) -> int:
    if text.lstrip("-").isdecimal():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadExport(f"{name} {text!r} is no time: write RFC 3339, or microseconds since 1970") from error
    since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
