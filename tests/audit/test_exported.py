"""Spark reads what the manifests name, each row as it was last."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from tests.kits.audited import make_chats

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from shardline.storage.audit.checks.registry import ALL_CHECKS
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.manifest import BadExport
from shardline.storage.audit.run import run_audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BIG = 2**62 + 1


def test_a_row_exported_again_counts_once_as_it_was_last(spark: SparkSession, tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=2)
    database = apsw.Connection(str(store))
    database.execute("UPDATE inbox SET channel = NULL WHERE id = 1")
    database.execute("UPDATE inbox SET channel = 'a/b=c' WHERE id = 2")
    export_store(store, exports)
    database.execute("UPDATE store_commit SET change_seq = change_seq + 1, commit_seq = commit_seq + 1")
    database.execute(
        "UPDATE outbox SET change_seq = (SELECT change_seq FROM store_commit), sent_at = ? WHERE id = 3",
        (BIG,),
    )
    database.close()
    export_store(store, exports)
    exported = Exported(spark, exports)
    rows = exported.table("outbox").select("id", "sent_at", "channel").collect()

    assert exported.read_rows("outbox") == 5
    assert exported.read_rows("shard") == 16
    assert sorted(row[0] for row in rows) == [1, 2, 3, 4]
    assert [row[1] for row in rows if row[0] == 3] == [BIG]
    assert {row[2] for row in rows} == {"fake"}
    channels = exported.table("inbox").select("id", "channel").collect()
    assert {row[0]: row[1] for row in channels} == {1: None, 2: "a/b=c", 3: "fake", 4: "fake"}


def test_a_file_that_no_manifest_names_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    export_store(store, exports)
    file = next((exports / "inbox").rglob("*.parquet"))
    file.with_name("stray.parquet").write_bytes(file.read_bytes())

    assert Exported(spark, exports).read_rows("inbox") == 2


def test_a_file_that_is_not_there_is_told(spark: SparkSession, tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    export_store(store, exports)
    next((exports / "inbox").rglob("*.parquet")).unlink()

    with pytest.raises(BadExport, match="is not there"):
        Exported(spark, exports).read_rows("inbox")


def test_fewer_rows_than_the_manifest_says_are_told(spark: SparkSession, tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    manifest = export_store(store, exports)
    [path] = (exports / "manifest").glob("*.json")
    rows = manifest.tables["inbox"].rows
    path.write_text(path.read_text().replace(f'"rows": {rows}', f'"rows": {rows + 1}'))

    with pytest.raises(BadExport, match="the manifests say 3"):
        Exported(spark, exports).read_rows("inbox")


def test_no_check_and_no_measure_needs_a_process_of_python(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is ended in the middle of its work, as a Ctrl-C does, prints where it was."""
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=2)
    export_store(store, exports)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "no-python"))

    summary = run_audit(Exported(spark, exports), tmp_path / "out", tuple(ALL_CHECKS.values()))

    assert summary.is_complete, summary
