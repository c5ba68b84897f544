"""An export as Spark reads it: the files that its manifests name, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from .manifest import BadExport, Manifest, newest, parts_of, read_manifests
from .schemas import spark_schema
from .tables import TABLES, Growth

_STORES: Final = StructType(
    [
        StructField("store", StringType()),
        StructField("taken_at", LongType()),
        StructField("shard_count", IntegerType()),
    ]
)


class Exported:
    """The tables of a folder of exports.

    Each has a column `store`, the uuid of the store a row is of, beside its own. Rows that were exported again as they
    changed are there once, as they were last.

    Args:
        spark: The session.
        folder: Of the exports.
    Raises:
        BadExport: there is none, or it is damaged.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.manifests: Sequence[Manifest] = read_manifests(folder)
        last = newest(self.manifests).values()
        rows = [(one.store, one.taken_at_us, one.shard_count) for one in last]
        self.stores: DataFrame = _make_frame(spark, rows, _STORES)
        """One row a store: `store`, `taken_at` (microseconds; what "now" means for its rows), `shard_count`."""

    @property
    def taken_at_us(self) -> int:
        """Of the newest export."""
        return max(manifest.taken_at_us for manifest in self.manifests)

    def expected_rows(self, table: str) -> int:
        """How many rows the manifests say that there are to read."""
        return sum(part.rows for part in parts_of(self.manifests, table))

    def read_rows(self, table: str) -> int:
        """How many rows there are to read.

        Raises:
            BadExport: not as many as the manifests say.
        """
        rows = self._raw(table).count()
        if rows != self.expected_rows(table):
            raise BadExport(
                f"{table}: the files hold {rows:,} rows, the manifests say {self.expected_rows(table):,}"
            )
        return rows

    def table(self, name: str) -> DataFrame:
        """One of `TABLES`."""
        raw = self._raw(name)
        is_once = all(manifest.number == 1 for manifest in self.manifests)
        if TABLES[name].growth is not Growth.CHANGES or is_once:
            return raw
        last = Window.partitionBy("store", "id").orderBy(fn.col("change_seq").desc())
        return raw.withColumn("_n", fn.row_number().over(last)).where("_n = 1").drop("_n")

    def _raw(self, name: str) -> DataFrame:
        table = TABLES[name]
        schema = spark_schema(table)
        files = [file for part in parts_of(self.manifests, name) for file in part.files]
        if not files:
            return _make_frame(self.spark, [], schema)
        missing = next((file for file in files if not (self.folder / file).is_file()), None)
        if missing is not None:
            raise BadExport(f"{self.folder / missing} is not there")
        reader = self.spark.read.schema(schema).option("basePath", str(self.folder / name))
        return reader.parquet(*(str(self.folder / file) for file in files))


def _make_frame(spark: SparkSession, rows: Sequence[tuple[str, int, int]], schema: StructType) -> DataFrame:
    # One of its overloads takes what pandas, which brings no types, makes.
    return spark.createDataFrame(rows, schema)  # pyright: ignore[reportUnknownMemberType]
