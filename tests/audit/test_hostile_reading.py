"""Exports that somebody spoiled: refused, or found; never clean when they are not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kits.audited import Tampered, make_chats

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from pyspark.errors import PySparkException

from shardline.storage.audit.checks.registry import pick_checks
from shardline.storage.audit.copies import Copies
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.manifest import BadExport
from shardline.storage.audit.run import run_audit
from shardline.storage.audit.source import StoreSource
from shardline.storage.audit.watch import start_watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CHECKS = ("hash_chain", "sequence_gaps")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export that nobody spoiled; a test copies it."""
    folder = tmp_path_factory.mktemp("whole")
    make_chats(folder / "a.db", chats=1)
    export_store(folder / "a.db", folder / "x")
    return folder / "x"


def audit(spark: SparkSession, exports: Path, out: Path) -> set[str]:
    """Checks that found something; all of them ran."""
    summary = run_audit(Exported(spark, exports), out, pick_checks(CHECKS), measures=())
    assert summary.is_complete
    return {one.check for one in summary.checks if one.findings}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def no_parquet(path: Path) -> None:
    path.write_bytes(b"PAR1" + bytes(200) + b"PAR1")


def into_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [cut, empty, no_parquet, Path.unlink, into_a_folder])
def test_a_spoilt_file_is_refused(
    spark: SparkSession, tmp_path: Path, whole: Path, spoil: Callable[[Path], None]
) -> None:
    exports = shutil.copytree(whole, tmp_path / "x")
    spoil(next((exports / "history").rglob("*.parquet")))

    with pytest.raises(BadExport, match=r"cannot be read|is not there|the manifests say"):
        audit(spark, exports, tmp_path / "out")


def test_a_byte_that_changed_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """Even where the file can be read and no check could tell: two sends under one key would be under two."""
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    with Tampered(store) as tampered:
        tampered.run("UPDATE outbox SET idempotency_key = 'a-key-of-its-own-' || id")
    export_store(store, exports)
    path = next((exports / "outbox").rglob("*.parquet"))
    whole = path.read_bytes()
    assert b"a-key-of-its-own-1" in whole, "so short a text is stored as it is"
    path.write_bytes(whole.replace(b"a-key-of-its-own-1", b"a-key-of-its-own-9", 1))
    summary = run_audit(
        Exported(spark, exports), tmp_path / "out", pick_checks(["duplicate_sends"]), measures=()
    )
    [outcome] = [one for one in summary.checks if one.status != "not_run"]

    assert not summary.is_complete
    assert outcome.status == "failed"
    assert "checksum" in (outcome.error or "").lower()


def test_a_manifest_of_another_export_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Of another store, and of another export of the same one."""
    for name in ("a", "b"):
        make_chats(tmp_path / f"{name}.db", chats=1)
        export_store(tmp_path / f"{name}.db", tmp_path / name)
    [other] = (tmp_path / "b/manifest").glob("*.json")
    [own] = (tmp_path / "a/manifest").glob("*.json")
    shutil.copy(other, own.parent)
    with pytest.raises(BadExport, match="is not there"):
        audit(spark, tmp_path / "a", tmp_path / "out")

    make_chats(tmp_path / "b.db", chats=1, first=1)
    export_store(tmp_path / "b.db", tmp_path / "c")
    shutil.copy(next((tmp_path / "c/manifest").glob("*.json")), other.parent)
    with pytest.raises(BadExport, match=r"is not there|the manifests say"):
        audit(spark, tmp_path / "b", tmp_path / "out")


def test_what_was_added_by_hand_is_not_read(spark: SparkSession, tmp_path: Path, whole: Path) -> None:
    exports = shutil.copytree(whole, tmp_path / "x")
    file = next((exports / "history").rglob("*.parquet"))
    for name in ("part-000001-0099-0000.parquet", "_SUCCESS", "notes.txt"):
        file.with_name(name).write_bytes(file.read_bytes())
    (exports / "manifest/notes.txt").write_text("mine")
    (exports / "manifest/none.new").write_text("{")

    assert audit(spark, exports, tmp_path / "out") == set()


def test_a_store_that_was_replaced_is_another_one(spark: SparkSession, tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    export_store(store, exports)
    for path in tmp_path.glob("a.db*"):
        path.unlink()
    make_chats(store, chats=2)
    second = export_store(store, exports)

    exported = Exported(spark, exports)
    assert second.number == 1
    assert len(exported.uuids) == 2
    assert exported.read_rows("outbox") == 6
    assert audit(spark, exports, tmp_path / "out") == set()


@pytest.mark.long
def test_a_store_that_was_put_back_and_went_on_is_found(spark: SparkSession, tmp_path: Path) -> None:
    store, old, exports = tmp_path / "a.db", tmp_path / "old.db", tmp_path / "x"
    make_chats(store, chats=2)
    shutil.copy(store, old)
    make_chats(store, chats=2, first=2)
    export_store(store, exports)
    for path in tmp_path.glob("a.db*"):
        path.unlink()
    shutil.copy(old, store)
    make_chats(store, chats=12, first=8)
    export_store(store, exports)

    assert audit(spark, exports, tmp_path / "out")


def test_two_copies_of_one_store_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    one, other = tmp_path / "a.db", tmp_path / "b.db"
    make_chats(one, chats=1)
    shutil.copy(one, other)
    spark.dataSource.register(StoreSource)

    with pytest.raises(BadExport, match="both store"):
        Copies(spark, one, other)
    with pytest.raises(BadExport, match="both store"):
        start_watch(spark, [one, other], tmp_path / "out", lambda _: None, every_s=None)
    with pytest.raises(PySparkException, match="both store"):
        spark.read.format("shardline").load(str(tmp_path / "*.db")).count()


@pytest.mark.parametrize("own", ["summary.json", "finding/mine", "notes"])
def test_a_folder_with_something_else_is_left_alone(
    spark: SparkSession, tmp_path: Path, whole: Path, own: str
) -> None:
    """The folder of exports itself, and what other programs wrote, whatever it is called."""
    exports, out = shutil.copytree(whole, tmp_path / "x"), tmp_path / "out"
    (out / own).parent.mkdir(parents=True)
    (out / own).write_text('{"mine": 1}')
    for folder in (exports, out):
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        with pytest.raises(FileExistsError, match="holds something else"):
            audit(spark, exports, folder)
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_run_that_was_cut_off_makes_room(spark: SparkSession, tmp_path: Path, whole: Path) -> None:
    exports, out = whole, tmp_path / "out"
    run_audit(Exported(spark, exports), out, (), measures=())
    summary = (out / "summary.json").read_bytes()
    for length in (0, 5, 100):
        (out / "summary.json").write_bytes(summary[:length])
        run_audit(Exported(spark, exports), out, (), measures=())
        assert (out / "summary.json").stat().st_size == len(summary)
