"""Every check finds exactly its faults by id: in more than a million rows, and on both read paths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
pytest.importorskip("benchmarks", reason="the generator of stores is no part of the wheel")

from benchmarks.audited_store import FAULTS, Fault, make_store
from shardline.storage.audit.checks.registry import ALL_CHECKS
from shardline.storage.audit.copies import Copies
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.run import Audited, run_audit
from tests.kits.spark_compiled import compiling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def find(audited: Audited, out: Path) -> set[tuple[str, Fault]]:
    with compiling(audited.spark):
        summary = run_audit(audited, out, tuple(ALL_CHECKS.values()), measures=())
    rows = audited.spark.read.parquet(str(out / "finding")).select("store", "check", "ref_id").collect()
    found = [(str(row[0]), (str(row[1]), str(row[2]))) for row in rows]

    assert summary.is_complete, [one.error for one in summary.checks if one.error]
    assert len(found) == len(set(found)) == summary.found()
    return set(found)


def test_the_generator_has_a_fault_for_each_check() -> None:
    assert set(FAULTS) == ALL_CHECKS.keys()


def test_each_fault_is_found_in_a_million_rows(spark: SparkSession, tmp_path: Path) -> None:
    """All but what takes two stores, which the next test has."""
    made = make_store(tmp_path / "a.db", 180_000, faults=3)
    store = export_store(tmp_path / "a.db", tmp_path / "x").store

    assert made.rows > 1_000_000
    assert set(FAULTS) - {check for check, _ in made.faults} == {"duplicate_sends", "shared_conversation"}
    assert find(Exported(spark, tmp_path / "x"), tmp_path / "out") == {
        (store, fault) for fault in made.faults
    }


def test_each_fault_is_found_by_both_read_paths(spark: SparkSession, tmp_path: Path) -> None:
    wanted: set[tuple[str, Fault]] = set()
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    for number, path in enumerate(paths):
        made = make_store(path, 1_600, faults=2, name=path.stem, is_second=number == 1, conversations=6)
        store = export_store(path, tmp_path / "x").store
        wanted |= {(store, fault) for fault in made.faults}

    assert {check for _, (check, _) in wanted} == set(FAULTS)
    assert find(Exported(spark, tmp_path / "x"), tmp_path / "exported") == wanted
    assert find(Copies(spark, *paths), tmp_path / "copies") == wanted


def test_a_clean_store_of_any_size_has_no_findings(spark: SparkSession, tmp_path: Path) -> None:
    make_store(tmp_path / "a.db", 20_000)
    export_store(tmp_path / "a.db", tmp_path / "x")

    assert find(Exported(spark, tmp_path / "x"), tmp_path / "out") == set()
