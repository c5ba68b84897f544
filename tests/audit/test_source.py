"""`spark.read.format("shardline")`: exact values, options of one load alone, and nothing that leaks between queries."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, cast

import apsw
import pytest

from tests.kits.audited import make_chats

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

from shardline.storage.audit.copies import Copies
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.manifest import BadExport
from shardline.storage.audit.snapshot import copy_store
from shardline.storage.audit.source import StoreSource
from shardline.storage.audit.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BIG = 2**62 + 1


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "a.db"
    make_chats(path, chats=4)
    database = apsw.Connection(str(path))
    database.execute(
        "UPDATE inbox SET done_at = ?, own_code = '', error_code = 'a \"b\"\n,' WHERE id = 2", (BIG,)
    )
    database.close()
    return path


def load(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    spark.dataSource.register(StoreSource)
    reader = spark.read.format("shardline")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(path))


def ids(rows: DataFrame) -> list[int]:
    return sorted(cast("list[int]", [row[0] for row in rows.select("id").collect()]))


def sums(rows: dict[str, DataFrame], columns: dict[str, list[str]]) -> dict[str, tuple[int, int]]:
    """By table, how many rows, and a sum over their hashes that knows no order; asked for at once."""
    hashes = [
        rows[name].select(
            fn.lit(name).alias("of"), fn.xxhash64(*columns[name]).cast("decimal(38,0)").alias("h")
        )
        for name in rows
    ]
    found = reduce(DataFrame.union, hashes).groupBy("of").agg(fn.count("*"), fn.sum("h")).collect()
    return {str(row[0]): (int(row[1]), int(row[2])) for row in found}


def test_both_read_paths_give_the_same_rows(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    export_store(store, tmp_path / "x")
    exported, copies = Exported(spark, tmp_path / "x"), Copies(spark, store)
    names = ("inbox", "outbox", "history")
    columns = {
        name: [
            "store",
            *(column.name for column in TABLES[name].columns),
            *(["channel"] if TABLES[name].by_channel else []),
        ]
        for name in names
    }
    found = sums({name: copies.table(name) for name in names}, columns)

    assert found.keys() == set(names)
    assert found == sums({name: exported.table(name) for name in names}, columns)
    assert copies.read_rows("history") == exported.read_rows("history") == found["history"][0]
    assert copies.read_rows("anchor") == 0


def test_values_arrive_exactly(spark: SparkSession, store: Path) -> None:
    row = (
        load(spark, store, table="inbox", where="id = 2").select("done_at", "own_code", "error_code").first()
    )

    assert row is not None
    assert tuple(row) == (BIG, "", 'a "b"\n,')


def test_options_choose_rows_and_a_schema_chooses_columns(spark: SparkSession, store: Path) -> None:
    at = sqlite3.connect(store)
    times = [row[0] for row in at.execute("SELECT accepted_at FROM inbox ORDER BY id")]
    at.close()
    spark.dataSource.register(StoreSource)
    few = (
        spark.read.format("shardline")
        .schema("status STRING, id LONG")
        .option("table", "inbox")
        .load(str(store))
    )

    assert ids(load(spark, store, table="inbox", since=str(times[2]), until=str(times[5]))) == [3, 4, 5]
    assert ids(load(spark, store, table="inbox", where="id > 6 OR id = 1", until="2100-01-01")) == [1, 7, 8]
    assert ids(load(spark, store, table="inbox", until="2001-01-01T00:00:00Z")) == []
    assert few.columns == ["status", "id"]
    assert sorted((str(row[0]), int(row[1])) for row in few.collect()) == [
        ("done", number) for number in range(1, 9)
    ]


def test_a_pattern_reads_many_copies(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    for name in ("b", "c"):
        make_chats(tmp_path / f"{name}.db", chats=1)
    rows = load(spark, tmp_path / "*.db", table="outbox").groupBy("store").count().collect()

    assert [row[1] for row in rows] == [2, 2]


def test_no_filter_of_one_query_is_left_for_the_next(spark: SparkSession, store: Path) -> None:
    rows = load(spark, store, table="history")
    every = rows.count()
    sends = rows.where("kind = 'out'").count()
    both = rows.where("kind = 'out'").union(rows.where("kind = 'in'"))

    assert 0 < sends < every
    assert rows.count() == every
    assert both.count() == every
    assert (
        rows.join(rows.where("kind = 'out'").select("hseq", "shard"), ["hseq", "shard"], "left").count()
        == every
    )
    source = StoreSource({"path": str(store), "table": "history"})
    assert type(source.reader(source.schema())).pushFilters is DataSourceReader.pushFilters


class Tiny(DataSource):
    """A hundred rows; it lets Spark push equalities down."""

    @classmethod
    def name(cls) -> str:
        return "tiny"

    def schema(self) -> str:
        return "k INT, g INT"

    def reader(self, schema: object) -> DataSourceReader:
        class Reader(DataSourceReader):
            def __init__(self) -> None:
                self.equal: list[tuple[str, object]] = []

            def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
                for one in filters:
                    if isinstance(one, EqualTo):
                        self.equal.append((one.attribute[0], one.value))
                    else:
                        yield one

            def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
                for k in range(100):
                    if all({"k": k, "g": k % 4}[name] == value for name, value in self.equal):
                        yield k, k % 4

        return Reader()


@pytest.mark.xfail(
    strict=True, reason="Spark 4.3 keeps pushed filters; when this passes, pushdown may be offered"
)
def test_spark_forgets_what_was_pushed(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(Tiny)
    rows = spark.read.format("tiny").load()
    try:
        counts = rows.where("g = 1").count(), rows.count()
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")

    assert counts == (25, 100)


def test_a_store_that_is_open_is_refused_and_its_copy_is_not(spark: SparkSession, tmp_path: Path) -> None:
    store, copy = tmp_path / "a.db", tmp_path / "copy.db"
    make_chats(store, chats=1)
    owner = apsw.Connection(str(store))
    owner.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(BadExport, match="is open"):
            Copies(spark, store)
        with pytest.raises(PySparkException, match="is open"):
            load(spark, store).count()
        copy_store(store, copy)
    finally:
        owner.execute("ROLLBACK")
        owner.close()

    assert Copies(spark, copy).read_rows("outbox") == 2
    with pytest.raises(FileExistsError):
        copy_store(store, copy)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"table": "secrets"}, "there is no table"),
        ({"table": "shard", "since": "1"}, "has no time"),
        ({"table": "inbox", "since": "yesterday"}, "is no time"),
    ],
)
def test_a_wrong_option_is_told(store: Path, options: dict[str, str], why: str) -> None:
    source = StoreSource({"path": str(store), **options})

    with pytest.raises(BadExport, match=why):
        source.reader(source.schema())


def test_no_store_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="there is no store"):
        load(spark, tmp_path / "*.db").count()
