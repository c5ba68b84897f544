"""What a chain cannot show by itself: a tail that is cut off, a history that is made anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kits.audited import Tampered, make_chats

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from shardline.storage.audit.checks.registry import pick_checks
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.kept import compare_heads
from shardline.storage.audit.manifest import BadExport, Manifest
from shardline.storage.audit.run import run_audit
from shardline.storage.sqlite.verify import Head

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def heads_of(manifest: Manifest) -> dict[int, Head]:
    return {int(shard): Head(hseq, bytes.fromhex(h)) for shard, (hseq, h) in manifest.heads.items()}


def test_a_kept_head_finds_a_cut_tail_and_a_new_history(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    make_chats(store, chats=6)
    manifest = export_store(store, tmp_path / "before")
    kept = heads_of(manifest)
    long = sorted(shard for shard, head in kept.items() if head.hseq > 2)
    with Tampered(store) as tampered:
        cut, changed = long[:2]
        tampered.run("DELETE FROM history WHERE shard = ? AND hseq = ?", cut, kept[cut].hseq)
        tampered.run("UPDATE history SET claim = claim + 9 WHERE shard = ? AND hseq = 2", changed)
    export_store(store, tmp_path / "after")

    before, after = Exported(spark, tmp_path / "before"), Exported(spark, tmp_path / "after")
    lost = compare_heads(after, manifest.store, kept)
    assert compare_heads(before, manifest.store, kept) == []
    assert [(one.shard, one.hseq) for one in lost] == [(cut, kept[cut].hseq), (changed, kept[changed].hseq)]
    assert "ends at row" in lost[0].text
    assert "is not the row" in lost[1].text
    with pytest.raises(BadExport, match="no export of store"):
        compare_heads(after, "another", kept)
    # By themselves the chains fit: this is what heads are kept for.
    summary = run_audit(after, tmp_path / "out", pick_checks(["hash_chain", "sequence_gaps"]), measures=())
    assert summary.found() == 0


def test_a_folder_of_exports_keeps_heads_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    """The first export holds the old rows, so what was chained to new ones does not follow from them."""
    store = tmp_path / "a.db"
    make_chats(store, chats=6)
    first = export_store(store, tmp_path / "x")
    shard = max(first.heads, key=lambda one: first.heads[one][0])
    with Tampered(store) as tampered:
        tampered.run("UPDATE history SET claim = claim + 9 WHERE shard = ? AND hseq = 1", int(shard))
        hseq = first.heads[shard][0]
        tampered.run(
            'INSERT INTO history (shard, hseq, kind, identity, "from", "to", event, claim, at, instance, h)'
            " SELECT shard, hseq + 1, kind, identity, 'x', 'y', 'z', claim, at, instance, h FROM history"
            " WHERE shard = ? AND hseq = ?",
            int(shard),
            hseq,
        )
        tampered.run("UPDATE store_commit SET commit_seq = commit_seq + 1")
    export_store(store, tmp_path / "x")
    out = tmp_path / "out"
    run_audit(Exported(spark, tmp_path / "x"), out, pick_checks(["hash_chain", "sequence_gaps"]), measures=())

    found = spark.read.parquet(str(out / "finding")).select("check", "ref_id").collect()
    assert [tuple(row) for row in found] == [("hash_chain", f"{shard}/{hseq + 1}")]
