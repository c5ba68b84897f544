"""An export as Spark reads it: the files that its manifests name, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as fn
from pyspark.sql.types import IntegerType, LongType, MapType, StringType, StructField, StructType

from .arrow import table_of
from .manifest import BadExport, Manifest, newest, parts_of, read_exports
from .schemas import spark_schema, to_arrow
from .tables import TABLES, Growth

STORES: Final = StructType(
    [
        StructField("store", StringType()),
        StructField("taken_at", LongType()),
        StructField("shard_count", IntegerType()),
        StructField("accounts", MapType(StringType(), StringType())),
    ]
)


class Exported:
    """The tables of one or many folders of exports.

    Each has a column `store`, the uuid of the store a row is of, beside its own. Rows that were exported again as they
    changed are there once, as they were last.

    Args:
        spark: The session.
        folders: Each holds exports, or folders of exports, such as one of each host.
    Raises:
        BadExport: there is none, one is damaged, or two folders hold exports of one store.
    """

    def __init__(self, spark: SparkSession, *folders: Path) -> None:
        self.spark = spark
        self._roots: Mapping[Path, Sequence[Manifest]] = read_exports(folders)
        self.manifests: Sequence[Manifest] = [one for many in self._roots.values() for one in many]
        last = newest(self.manifests).values()
        # Whoever does not say whose it is may be the same bot as another one: then none is told apart.
        is_told = all(one.accounts is not None for one in last)
        rows = [
            (
                one.store,
                one.taken_at_us,
                one.shard_count,
                list((one.accounts or {}).items()) if is_told else [],
            )
            for one in last
        ]
        self.stores: DataFrame = make_frame(spark, rows, STORES)
        """One row a store: `store`, `taken_at` (microseconds; what "now" means for its rows), `shard_count`, `accounts`
        (by channel; empty unless all stores say theirs)."""

    @property
    def uuids(self) -> list[str]:
        """Of the stores, sorted."""
        return sorted({manifest.store for manifest in self.manifests})

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
        schema = spark_schema(TABLES[name])
        frames = [self._read(root, many, name) for root, many in self._roots.items()]
        full = [frame for frame in frames if frame is not None]
        if not full:
            return make_frame(self.spark, [], schema)
        # What the folders' names say follows from where each export begins, so every one is read by itself.
        return reduce(DataFrame.unionByName, full)

    def _read(self, root: Path, manifests: Sequence[Manifest], name: str) -> DataFrame | None:
        files = [root / file for part in parts_of(manifests, name) for file in part.files]
        missing = next((file for file in files if not file.is_file()), None)
        if missing is not None:
            raise BadExport(f"{missing} is not there")
        if not files:
            return None
        reader = self.spark.read.schema(spark_schema(TABLES[name])).option("basePath", str(root / name))
        return reader.parquet(*map(str, files))


def make_frame(spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: StructType) -> DataFrame:
    """A little table out of this process.

    It is a part of the plan. Out of plain rows Spark would make one that a Python process reads anew at each use.
    """
    # One of its overloads takes what pandas, which brings no types, makes.
    return spark.createDataFrame(table_of(rows, to_arrow(schema)), schema)  # pyright: ignore[reportUnknownMemberType]
