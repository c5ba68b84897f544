"""Live stores are followed: nothing is lost or told twice over restarts, and another store is no more of the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kits.audited import Tampered, add_live_faults, make_chats

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from pyspark.errors import PySparkException

from shardline.storage.audit.source import StoreSource
from shardline.storage.audit.watch import Told, problem_of, start_watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long]

Found = set[tuple[str, str, str]]
"""Store, check, row."""


def add_chat(store: Path) -> None:
    """One more opening of the store, with two messages of a conversation that is new to it."""
    first = len(history(store)) if store.exists() else 0
    make_chats(store, chats=1, first=first)


def history(store: Path) -> list[tuple[object, ...]]:
    with Tampered(store, relink=False) as look:
        return look.rows("SELECT shard, hseq, h FROM history")


def follow(
    spark: SparkSession, store: Path, folder: Path, took: Callable[[DataFrame, int], None]
) -> str | None:
    """Take what is new, then end; why it ended, if not as it should."""
    spark.dataSource.register(StoreSource)
    rows = spark.readStream.format("shardline").option("table", "history").load(str(store))
    writer = rows.writeStream.option("checkpointLocation", str(folder)).trigger(availableNow=True)
    query = writer.foreachBatch(took).start()
    try:
        query.awaitTermination()
    except PySparkException:
        return problem_of(query)
    return None


def watch(spark: SparkSession, stores: list[Path], out: Path, tell: Callable[[Told], None]) -> str | None:
    query = start_watch(spark, stores, out, tell, every_s=None)
    try:
        query.awaitTermination()
    except PySparkException:
        return problem_of(query)
    return None


def found_in(spark: SparkSession, out: Path) -> Found:
    rows = spark.read.parquet(str(out / "finding")).select("store", "check", "ref_id").collect()
    found = [(str(row[0]), str(row[1]), str(row[2])) for row in rows]
    assert len(found) == len(set(found))
    return set(found)


def test_every_row_comes_once_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    seen: list[tuple[object, ...]] = []
    kept: dict[int, list[tuple[object, ...]]] = {}

    def take(batch: DataFrame, number: int) -> None:
        found = batch.select("shard", "hseq", "h").collect()
        rows: list[tuple[object, ...]] = [(row[0], row[1], bytes(row[2])) for row in found]
        # A batch that runs again is the same batch.
        assert kept.setdefault(number, rows) == rows
        if len(kept) == 2 and not seen:
            seen.extend(rows)
            raise RuntimeError("cut off")

    for _ in range(4):
        add_chat(store)
        follow(spark, store, tmp_path / "checkpoint", take)
    follow(spark, store, tmp_path / "checkpoint", take)

    rows = [row for many in kept.values() for row in many]
    assert seen
    assert sorted(rows, key=repr) == sorted(history(store), key=repr)


@pytest.mark.parametrize("how", ["another", "older", "other history"])
def test_a_replaced_store_is_an_error_not_a_wrong_count(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    store, old = tmp_path / "a.db", tmp_path / "old.db"
    taken: list[int] = []

    def take(batch: DataFrame, number: int) -> None:
        taken.append(batch.count())

    add_chat(store)
    shutil.copy(store, old)
    add_chat(store)
    assert follow(spark, store, tmp_path / "checkpoint", take) is None
    before = len(taken)
    if how == "another":
        store.unlink()
        for _ in range(3):
            add_chat(store)
    elif how == "older":
        shutil.copy(old, store)
    else:
        with Tampered(store) as tampered:
            tampered.run("UPDATE history SET claim = claim + 1")
        add_chat(store)

    problem = follow(spark, store, tmp_path / "checkpoint", take)
    assert problem is not None
    assert ("it was replaced" in problem) == (how == "another")
    assert ("older state" in problem) == (how != "another")
    assert len(taken) == before


def test_a_watch_tells_each_fault_once_over_a_cut(spark: SparkSession, tmp_path: Path) -> None:
    stores, out = [tmp_path / "a.db", tmp_path / "b.db"], tmp_path / "out"
    told: list[Told] = []

    def cut(one: Told) -> None:
        raise RuntimeError(f"cut off in batch {one.batch}")

    for store in stores:
        make_chats(store, chats=3)
    assert watch(spark, stores, out, told.append) is None
    assert sum(one.rows for one in told) == sum(len(history(store)) for store in stores)
    assert found_in(spark, out) == set()

    wanted: Found = set()
    for store in stores:
        wanted |= add_live_faults(store)
    assert watch(spark, stores, out, cut) is not None
    # Its findings are written, it has not ended; so it runs again.
    assert found_in(spark, out) == wanted
    told.clear()
    assert watch(spark, stores, out, told.append) is None
    assert found_in(spark, out) == wanted
    assert sum(one.findings for one in told) == len(wanted)
    told.clear()
    add_chat(stores[0])
    assert watch(spark, stores, out, told.append) is None
    assert sum(one.findings for one in told) == 0
    assert found_in(spark, out) == wanted
