"""The audit: export and Spark's format, each against apsw and Arrow alone; fifteen checks over the
Parquet files against a plain scan of them.

Both sides of a ratio read the same rows, which a checksum proves, and take turns. Each run is in this one process but
for the sides of Spark's format, which Spark runs in its worker.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

import attrs
import structlog
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.audit_suite import logging_tasks, measure_suite, read_tasks, show_suite
from benchmarks.audited_store import make_store
from shardline.storage.audit.arrow import ParquetFile, arrow_schema, arrow_type
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.scan import Stretch, hash_content, open_copy, stretches
from shardline.storage.audit.schemas import spark_schema
from shardline.storage.audit.session import open_session
from shardline.storage.audit.snapshot import open_snapshot
from shardline.storage.audit.source import StoreSource
from shardline.storage.audit.tables import CONTENT_HASH, TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shardline.storage.audit.arrow import Batch, RecordBatch

EXPORT_BAR: Final = 1.5
SCAN_BAR: Final = 1.3
_CHUNK: Final = 20_000


class _Arrow(Protocol):
    def array(self, values: list[object], type: object) -> object: ...


class _TableType(Protocol):
    def from_arrays(self, arrays: list[object], *, schema: object) -> Batch: ...


@attrs.frozen
class Line:
    """One ratio: seconds of theirs to seconds of ours, by round."""

    name: str
    ours_s: list[float]
    theirs_s: list[float]
    bar: float

    @property
    def ratio(self) -> float:
        """The median of the rounds' own."""
        return statistics.median(their / our for our, their in zip(self.ours_s, self.theirs_s, strict=True))


def plain_batches(path: Path, table: Table, stretch: Stretch) -> Iterator[Batch]:
    """What anybody would write: rows out of apsw, turned into columns in Python."""
    arrow = cast("_Arrow", import_module("pyarrow"))
    make = cast("_TableType", import_module("pyarrow").Table)
    schema = arrow_schema(table.columns)
    types = [arrow_type(column.kind) for column in table.columns]
    names = ", ".join(f'"{column.source or column.name}"' for column in table.columns)
    where = "1" if stretch.first is None else f"id BETWEEN {stretch.first} AND {stretch.last}"
    is_hashed = table.columns[-1] == CONTENT_HASH
    with open_copy(path) as database:
        cursor = database.execute(f"SELECT {names} FROM {table.name} WHERE {where}")
        while rows := list(islice(cursor, _CHUNK)):
            columns = [list(column) for column in zip(*rows, strict=True)]
            if is_hashed:
                columns[-1] = [hash_content(body) for body in columns[-1]]
            arrays = [
                arrow.array(cast("list[object]", one), kind) for one, kind in zip(columns, types, strict=True)
            ]
            yield make.from_arrays(arrays, schema=schema)


def plain_export(store: Path, folder: Path) -> int:
    """The whole store by `plain_batches`, one file a table; how many rows."""
    count = 0
    with open_snapshot(store, folder) as snapshot:
        for table in TABLES.values():
            file = ParquetFile(folder / f"{table.name}.parquet", table.columns)
            for batch in plain_batches(snapshot.path, table, Stretch()):
                file.write(batch)
                count += batch.num_rows
            file.close()
    return count


def our_export(store: Path, folder: Path) -> int:
    """The product's; how many rows."""
    return sum(part.rows for part in export_store(store, folder).tables.values())


class PlainSource(DataSource):
    """Spark's format over `plain_batches`."""

    @classmethod
    def name(cls) -> str:
        """Its word."""
        return "plain"

    def schema(self) -> StructType:
        """Of the history."""
        return StructType(
            [field for field in spark_schema(TABLES["history"]).fields if field.name not in {"store", "dt"}]
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """As many parts as the other side has."""
        return PlainReader(Path(self.options["path"]))


class PlainReader(DataSourceReader):
    """Of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        """By ids."""
        with open_copy(self._path) as database:
            return [InputPartition(part) for part in stretches(database, TABLES["history"], 200_000)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One part."""
        for batch in plain_batches(self._path, TABLES["history"], cast("Stretch", partition.value)):
            yield from batch.to_batches()


def checksum(rows: DataFrame, columns: list[str]) -> tuple[int, int]:
    """How many, and a sum of hashes that knows no order."""
    row = (
        rows.select(fn.xxhash64(*columns).cast("decimal(38,0)").alias("h"))
        .agg(fn.count("*"), fn.sum("h"))
        .first()
    )
    assert row is not None
    return int(row[0]), int(row[1])


def timed(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def measure_export(store: Path, rounds: int) -> Line:
    """Export of a whole store."""
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            sides = [
                (ours, partial(our_export, store, Path(one))),
                (theirs, partial(plain_export, store, Path(other))),
            ]
            rows: set[int] = set()
            for times, export in sides[:: 1 if number % 2 else -1]:
                begun = time.perf_counter()
                rows.add(export())
                times.append(time.perf_counter() - begun)
            assert len(rows) == 1
    return Line("export", ours, theirs, EXPORT_BAR)


def measure_scan(spark: SparkSession, store: Path, rounds: int) -> Line:
    """A full scan of the history in Spark."""
    spark.dataSource.register(StoreSource)
    spark.dataSource.register(PlainSource)
    sides = {
        "ours": spark.read.format("shardline").option("table", "history").load(str(store)).drop("store"),
        "theirs": spark.read.format("plain").load(str(store)),
    }
    names = sides["theirs"].columns
    assert checksum(sides["ours"], names) == checksum(sides["theirs"], names)
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for number in range(rounds):
        for name, rows in list(sides.items())[:: 1 if number % 2 else -1]:
            times[name].append(timed(rows.write.format("noop").mode("overwrite").save))
    return Line("scan in Spark", times["ours"], times["theirs"], SCAN_BAR)


def show(line: Line) -> bool:
    """Print a ratio; whether its bar is met."""
    is_met = line.ratio >= line.bar
    ratios = [their / our for our, their in zip(line.ours_s, line.theirs_s, strict=True)]
    print(
        f"{line.name:16} ours {statistics.median(line.ours_s):.2f} s,"
        f" apsw {statistics.median(line.theirs_s):.2f} s, ratio {line.ratio:.2f}"
        f" ({min(ratios):.2f}-{max(ratios):.2f}), bar {line.bar}  {'met' if is_met else 'MISSED'}",
        flush=True,
    )
    return is_met


def main() -> int:
    """Measure and print; 1, a bar was missed."""
    parser = argparse.ArgumentParser(prog="bench audit", description=__doc__)
    parser.add_argument("--messages", type=int, default=170_000, help="each is six rows; 170,000")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", choices=["export", "scan", "checks"], help="one of the three")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    met: list[bool] = []
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as log:
        store = Path(work, "bench.db")
        made = make_store(store, options.messages)
        print(f"{made.rows:,} rows, load {os.getloadavg()[0]:.1f}", flush=True)
        if options.only in {None, "export"}:
            met.append(show(measure_export(store, options.rounds)))
        if options.only != "export":
            with logging_tasks(Path(log)):
                spark = open_session("local[2]")
            if options.only in {None, "scan"}:
                met.append(show(measure_scan(spark, store, options.rounds)))
            suite = None
            if options.only in {None, "checks"}:
                export_store(store, Path(work, "x"))
                suite = measure_suite(Exported(spark, Path(work, "x")), made.rows, options.rounds)
            spark.stop()
            if suite is not None:
                met.append(show_suite(suite, made.rows, read_tasks(Path(log))))
    return int(not all(met))


if __name__ == "__main__":
    sys.exit(main())
