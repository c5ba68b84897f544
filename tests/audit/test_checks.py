"""Each check finds exactly its faults, by id; in a clean store that was killed nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kits.audited import (
    DEAD_ROWS,
    EVENTS,
    Fault,
    make_chats,
    make_killed_store,
    overlap,
    spoil_chains,
    spoil_rows,
)

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from shardline.storage.audit.checks.registry import ALL_CHECKS, pick_checks
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.report import write_report
from shardline.storage.audit.run import run_audit
from shardline.storage.audit.summary import read_summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_each_check_finds_its_faults_and_no_others(spark: SparkSession, tmp_path: Path) -> None:
    exports = tmp_path / "exports"
    clean = make_killed_store(tmp_path / "clean")
    rows, chains = tmp_path / "rows.db", tmp_path / "chains.db"
    make_chats(rows, chats=12, dead=DEAD_ROWS, events=EVENTS)
    make_chats(chains, chats=12)
    wanted = {"clean": set[Fault](), "rows": spoil_rows(rows), "chains": spoil_chains(chains)}
    wanted["chains"] |= overlap(rows, chains)
    names = {
        export_store(path, exports).store: path.parent.name if path is clean else path.stem
        for path in (clean, rows, chains)
    }
    checks = pick_checks(None)

    summary = run_audit(Exported(spark, exports), tmp_path / "out", checks)

    page = tmp_path / "out/report.html"
    write_report(tmp_path / "out", page, now_us=0)
    found = spark.read.parquet(str(tmp_path / "out/finding")).select("store", "check", "ref_id").collect()
    assert {name: {(row[1], row[2]) for row in found if names[row[0]] == name} for name in wanted} == wanted
    assert len(found) == sum(map(len, wanted.values()))
    assert {check for faults in wanted.values() for check, _ in faults} == {check.name for check in checks}
    assert summary.is_complete
    assert summary == read_summary(tmp_path / "out")
    table = spark.read.parquet(str(tmp_path / "out/summary"))
    columns = ("check", "severity", "status", "rows_scanned", "findings", "seconds", "error")
    assert [tuple(row) for row in table.select("run_id", *columns).collect()] == [
        (summary.run_id, *(getattr(one, name) for name in columns)) for one in summary.checks
    ]
    assert {row[0] for row in table.select("status").collect()} == {"ran", "not_run"}
    assert {one.check for one in summary.checks if one.status == "not_run"} == ALL_CHECKS.keys() - {
        check.name for check in checks
    }
    html = page.read_text()
    assert "text 1" not in html
    assert html.count("<svg") == 6
    assert all(f"<h2 id='{check.name}'>{check.name}: " in html for check in checks)
    assert all(f"<a href='#{check.name}'>" in html for check in checks)
