"""Copies of stores, read by the data source, as something to audit."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ..sqlite.look import Look
from .accounts import read_accounts
from .exported import STORES, make_frame
from .manifest import BadExport
from .scan import open_copy
from .source import FORMAT, StoreSource, check_copy
from .stores import name_stores
from .tables import TABLES


class Copies:
    """The tables of copies of stores; nothing is exported.

    Args:
        spark: The session.
        paths: The files; nobody has them open.
    Raises:
        BadExport: somebody has one open, or two are of one store.
        BusError: as `Look`.
    """

    def __init__(self, spark: SparkSession, *paths: Path) -> None:
        self.spark = spark
        for path in paths:
            check_copy(path)
        self._paths = name_stores(paths)
        spark.dataSource.register(StoreSource)
        # A copy says nothing of when it was made, but its file does.
        self._taken_us = {store: path.stat().st_mtime_ns // 1000 for store, path in self._paths.items()}
        rows = [
            (store, self._taken_us[store], _shard_count(path), _accounts(path))
            for store, path in self._paths.items()
        ]
        self.stores: DataFrame = make_frame(spark, rows, STORES)

    @property
    def uuids(self) -> list[str]:
        """Of the stores, sorted."""
        return sorted(self._paths)

    @property
    def taken_at_us(self) -> int:
        """When the newest file was written."""
        return max(self._taken_us.values())

    def table(self, name: str) -> DataFrame:
        """One of `TABLES`."""
        reader = self.spark.read.format(FORMAT).option("table", name)
        frames = [reader.load(str(path)) for path in self._paths.values()]
        rows = frames[0]
        for frame in frames[1:]:
            rows = rows.unionByName(frame)
        return rows

    def read_rows(self, table: str) -> int:
        """How many rows Spark reads.

        Raises:
            BadExport: not as many as SQLite counts.
        """
        rows = self.table(table).count()
        wanted = sum(_count(path, table) for path in self._paths.values())
        if rows != wanted:
            raise BadExport(f"{table}: Spark reads {rows:,} rows, the files hold {wanted:,}")
        return rows


def _shard_count(path: Path) -> int:
    with Look(path) as look:
        return look.shard_count


def _accounts(path: Path) -> list[tuple[str, str]]:
    with open_copy(path) as database:
        return list(read_accounts(database).items())


def _count(path: Path, table: str) -> int:
    with open_copy(path) as database:
        [(rows,)] = database.execute(f"SELECT count(*) FROM {TABLES[table].name}").fetchall()  # noqa: S608
    return int(str(rows))
