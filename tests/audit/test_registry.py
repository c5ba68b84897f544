"""Checks of other distributions stand beside ours, or are refused by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from tests.kits.audited import make_chats
from tests.kits.operated import operate

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from shardline.storage.audit.checks import registry
from shardline.storage.audit.checks.base import Check, Limits, Severity, Tables, findings
from shardline.storage.audit.checks.registry import ALL_CHECKS, GROUP, UnknownCheck, known_checks, pick_checks
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.run import run_audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def find_seventh(tables: Tables, limits: Limits) -> DataFrame:
    return findings(tables["inbox"].where("id = 7"), table="inbox", ref=fn.col("id"))


def find_nothing_but_trouble(tables: Tables, limits: Limits) -> DataFrame:
    raise RuntimeError("no luck")


def make(name: str, *, tables: tuple[str, ...] = ("inbox",)) -> Check:
    find = find_nothing_but_trouble if name == "trouble" else find_seventh
    return Check(name=name, severity=Severity.WARNING, tables=tables, keys=("ref_id",), doc=name, find=find)


SEVENTH = make("seventh")
MANY = (make("seventh"), make("trouble"))
TAKEN = make("hash_chain")
BEYOND = make("beyond", tables=("fact",))
NO_CHECK = (SEVENTH, "seventh")


def offer(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    points = [EntryPoint(name=name, value=f"{__name__}:{name}", group=GROUP) for name in names]

    def find(*, group: str) -> list[EntryPoint]:
        return points if group == GROUP else []

    def load(point: EntryPoint) -> object:
        # The file of a test is not imported under a name that can be found again.
        return cast("object", globals()[point.name])

    monkeypatch.setattr(registry, "entry_points", find)
    monkeypatch.setattr(EntryPoint, "load", load)


def test_a_check_of_another_distribution_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(monkeypatch, "MANY")
    make_chats(tmp_path / "a.db", chats=4)
    export_store(tmp_path / "a.db", tmp_path / "x")
    known = known_checks()
    picked = pick_checks(["seventh", "trouble", "inbox_without_outcome"], known)

    summary = run_audit(Exported(spark, tmp_path / "x"), tmp_path / "out", picked, known=known, measures=())

    outcomes = {one.check: one for one in summary.checks}
    assert list(known) == [*ALL_CHECKS, "seventh", "trouble"]
    assert (outcomes["seventh"].status, outcomes["seventh"].findings) == ("ran", 1)
    assert outcomes["seventh"].rows_scanned == 8
    assert (outcomes["trouble"].status, outcomes["trouble"].error) == ("failed", "RuntimeError: no luck")
    # It ran and found none; that is not the same as one that nobody asked for.
    assert (outcomes["inbox_without_outcome"].status, outcomes["inbox_without_outcome"].findings) == (
        "ran",
        0,
    )
    assert (outcomes["hash_chain"].status, outcomes["hash_chain"].findings) == ("not_run", None)
    assert not summary.is_complete
    assert (summary.found(), summary.found(Severity.ERROR)) == (1, 0)


def find_each(tables: Tables, limits: Limits) -> DataFrame:
    """Two findings of a time, and one of none."""
    at = fn.when(fn.col("id") == 1, 10).when(fn.col("id") == 2, 20)
    return findings(tables["inbox"].where("id <= 3"), table="inbox", ref=fn.col("id"), at=at)


def test_findings_from_before_a_time_are_left_out_and_a_report_is_made(
    spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    make_chats(tmp_path / "a.db", chats=2)
    export_store(tmp_path / "a.db", tmp_path / "x")
    each = Check(
        name="each", severity=Severity.ERROR, tables=("inbox",), keys=("ref_id",), doc="each", find=find_each
    )
    known = {"each": each}

    summary = run_audit(Exported(spark, tmp_path / "x"), out, [each], known=known, since_us=15)

    assert summary.since_us == 15
    found = spark.read.parquet(str(out / "finding"))
    assert {(row.ref_id, row.at) for row in found.collect()} == {("2", 20), ("3", None)}
    ended = operate("audit", "report", out)
    assert (ended.exit_code, ended.stdout) == (0, f"report: {out / 'report.html'}\n")
    assert "each: 2" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("TAKEN", "which there is already"),
        ("BEYOND", "that no export has"),
        ("NO_CHECK", "is no Check"),
        ("NOTHING", "cannot be imported, KeyError"),
    ],
)
def test_a_wrong_one_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, why: str) -> None:
    offer(monkeypatch, name)

    with pytest.raises(UnknownCheck, match=why):
        known_checks()
