"""Exports that go wrong: each ends in one line and exit code 2, and the next one is whole."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from shardline.storage.sqlite.migrate import load_migrations
from tests.kits.audited import Tampered, make_chats
from tests.kits.operated import operate

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from shardline.storage.audit import export as exporting
from shardline.storage.audit.arrow import ParquetFile
from shardline.storage.audit.export import export_store
from shardline.storage.audit.manifest import BadExport, read_manifests
from shardline.storage.audit.snapshot import open_snapshot
from shardline.storage.audit.tables import Column

KILLED = """
import os, signal, sys
from pathlib import Path
from shardline.storage.audit.export import export_store
def die(done, of):
    if done > of // 2:
        os.kill(os.getpid(), signal.SIGKILL)
export_store(Path(sys.argv[1]), Path(sys.argv[2]), progress=die)
"""
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
from shardline.runtime.command.app import main
sys.exit(main())
"""
MANIFEST = "manifest/*.json"


def test_an_export_that_was_killed_is_made_again(tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=3)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(store), str(exports)], check=False, timeout=150
    )
    left = [path.name for path in exports.glob(".snapshot-*/copy.db")]
    # What the next one does not write: a file of the one that was killed.
    stray = next(exports.rglob("part-*.parquet"))
    stray.with_name("part-000001-0099-0000.parquet").write_bytes(stray.read_bytes()[:99])
    unread = operate("audit", "run", exports, "--out", tmp_path / "out")
    again = export_store(store, exports)
    whole = export_store(store, tmp_path / "whole")

    assert killed.returncode == -signal.SIGKILL
    assert left == ["copy.db"]
    assert unread.exit_code == 2
    assert "holds no export" in unread.stderr
    assert again.number == 1
    assert {name: part.rows for name, part in again.tables.items()} == {
        name: part.rows for name, part in whole.tables.items()
    }
    assert list(exports.glob(".snapshot-*")) == [], "the copy holds the texts of messages"


def test_a_store_is_exported_into_a_folder_by_one_at_a_time(tmp_path: Path) -> None:
    store, other, exports = tmp_path / "a.db", tmp_path / "b.db", tmp_path / "x"
    make_chats(store, chats=1)
    make_chats(other, chats=1)
    exports.mkdir()
    with open_snapshot(store, exports):
        refused = operate("audit", "export", store, "--to", exports)
        beside = operate("audit", "export", other, "--to", exports)
    after = operate("audit", "export", store, "--to", exports)

    assert refused.exit_code == 2
    assert "by another process" in refused.stderr
    assert (beside.exit_code, after.exit_code) == (0, 0), "another store is nobody's business"
    assert [one.number for one in read_manifests(exports)] == [1, 1]


def test_one_store_under_two_names_is_refused(tmp_path: Path) -> None:
    one, other, exports = tmp_path / "a.db", tmp_path / "b.db", tmp_path / "x"
    make_chats(one, chats=1)
    shutil.copy(one, other)
    ends = [
        operate("audit", "export", one, other, "--to", exports),
        operate("audit", one, other),
    ]

    for ended in ends:
        assert ended.exit_code == 2
        assert "both store" in ended.stderr
        assert str(one) in ended.stderr
        assert str(other) in ended.stderr
    assert not exports.exists()


@pytest.mark.parametrize("schema", range(1, len(load_migrations())))
def test_an_older_store_is_told_to_be_migrated(tmp_path: Path, schema: int) -> None:
    store = tmp_path / "old.db"
    database = apsw.Connection(str(store))
    for step in load_migrations()[:schema]:
        database.execute(step.script).fetchall()
    database.execute(
        "INSERT INTO store_meta (id, uuid, schema, shard_count, lane_policy, created_at)"
        " VALUES (1, 'x', ?, 16, 'conversation', 0)",
        (schema,),
    ).fetchall()
    database.close()
    ends = [
        operate("audit", "export", store, "--to", tmp_path / "x"),
        operate("audit", store),
        operate("audit", "copy", store, "--to", tmp_path / "copy.db"),
        operate("audit", "watch", store, "--out", tmp_path / "w", "--once"),
    ]

    for ended in ends:
        assert ended.exit_code == 2, ended.stderr
        assert "migrate" in ended.stderr
    assert not list(tmp_path.glob("x/manifest/*"))
    assert not (tmp_path / "copy.db").exists()


def break_page(store: Path, table: str = "outbox") -> None:
    """Overwrite the first page of a table."""
    database = apsw.Connection(str(store))
    [(root,)] = database.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = ? AND type = 'table'", (table,)
    ).fetchall()
    [(size,)] = database.execute("PRAGMA page_size").fetchall()
    database.close()
    with store.open("r+b") as file:
        file.seek((int(str(root)) - 1) * int(str(size)))
        file.write(b"\xff" * 64)


def break_text(store: Path) -> None:
    """Make a text no UTF-8."""
    database = apsw.Connection(str(store))
    database.execute("UPDATE outbox SET platform_message_id = CAST(x'ff41' AS TEXT) WHERE id = 3")
    database.close()


@pytest.mark.parametrize(
    ("spoil", "said"), [(break_page, "`shardline doctor` looks"), (break_text, "outbox holds a value")]
)
def test_a_damaged_store_is_one_line_and_no_finding(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=3)
    spoil(store)
    refused = operate("audit", "export", store, "--to", exports)

    # 1 would say that something was found.
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"shardline: {store}: STORE_CORRUPT: ")
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not list(exports.rglob("*.parquet"))
    assert not list(exports.glob(".snapshot-*")), "the copy holds the texts of messages"


@pytest.mark.parametrize("table", ["shard", "history"])
def test_damage_since_the_last_export_is_one_line(tmp_path: Path, table: str) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=3)
    export_store(store, exports)
    with Tampered(store, relink=False) as grown:
        grown.run("UPDATE shard SET hseq = hseq + 1")
    break_page(store, table)
    refused = operate("audit", "export", store, "--to", exports)

    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"shardline: {store}: STORE_CORRUPT: ")
    assert refused.stderr.count("\n") == 1


def test_a_time_that_no_calendar_has_is_exported(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    make_chats(store, chats=2)
    with Tampered(store, relink=False) as spoiled:
        for row, at_us in ((1, 2**63 - 1), (2, -(2**63)), (3, -1)):
            spoiled.run("UPDATE outbox SET created_at = ? WHERE id = ?", at_us, row)
    part = export_store(store, tmp_path / "x").tables["outbox"]
    days = {name.split("/")[2] for name in part.files}

    assert part.rows == 4
    assert {"dt=__HIVE_DEFAULT_PARTITION__", "dt=1970-01-01"} < days


def test_a_file_size_limit_is_one_line(tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    assert store.stat().st_size > 65536
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, "audit", "export", str(store), "--to", str(exports)],
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )

    assert ended.returncode == 2, ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith(f"shardline: {store}: ")
    assert not list(exports.glob("manifest/*"))
    assert not list(exports.glob(".snapshot-*"))


class FullDisk(ParquetFile):
    """Writes where there is no room."""

    def __init__(self, path: Path, columns: tuple[Column, ...]) -> None:
        super().__init__(Path("/dev/full"), columns)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
def test_a_full_disk_is_one_line_and_the_next_export_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    with monkeypatch.context() as patched:
        patched.setattr(exporting, "ParquetFile", FullDisk)
        full = operate("audit", "export", store, "--to", exports)
    after = operate("audit", "export", store, "--to", exports)

    assert full.exit_code == 2
    assert "No space left" in full.stderr
    assert after.exit_code == 0, after.stderr
    assert [one.number for one in read_manifests(exports)] == [1]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_one_line(tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    exports.mkdir(mode=0o500)
    ended = operate("audit", "export", store, "--to", exports)

    assert ended.exit_code == 2
    assert "Permission denied" in ended.stderr


@pytest.mark.parametrize("to", ["a.db", "a.db/x", "/proc/none"])
def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, to: str) -> None:
    store = tmp_path / "a.db"
    make_chats(store, chats=1)
    before = store.read_bytes()
    ended = operate("audit", "export", store, "--to", tmp_path / to)

    assert ended.exit_code == 2
    assert ended.stderr.startswith(f"shardline: {store}: ")
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"number": 1', '"number": 2'),
        ('"number": 1', '"number": "1"'),
        ('"taken_at_us": ', '"taken_at_us": "x", "y": '),
        ('"rows": 2', '"rows": null'),
        ('"files": [', '"files": null, "f": ['),
        ('"inbox/store=', '"../inbox/store='),
        ('"inbox/store=', '"/inbox/store='),
        ('"inbox/store=', '"inbox/store=x'),
        ('"inbox/store=', '"outbox/store='),
        ("/dt=", "/../dt="),
        ('"accounts": {}', '"accounts": []'),
        ('"accounts": {}', '"accounts": {"fake": 1}'),
        ('"logs": {}', '"logs": {"news/0": "1"}'),
        ('"heads": {', '"heads": {"99": ["x", ""], '),
        ('"heads": {', '"heads": {"99": [1, null], '),
        ('"heads": {', '"heads": {"99": [], '),
        ('"logs": {}', '"logs": []'),
        ('"format": 2', '"format": 9'),
        ("{", "["),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(tmp_path: Path, before: str, after: str) -> None:
    exports = tmp_path / "x"
    make_chats(tmp_path / "a.db", chats=1)
    export_store(tmp_path / "a.db", exports)
    [path] = exports.glob(MANIFEST)
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))

    with pytest.raises(BadExport, match=r"is damaged|another version"):
        read_manifests(exports)
    again = operate("audit", "export", tmp_path / "a.db", "--to", exports)
    assert again.exit_code == 2
    assert str(path) in again.stderr


def test_a_manifest_that_is_cut_short_is_refused_at_every_length(tmp_path: Path) -> None:
    exports = tmp_path / "x"
    make_chats(tmp_path / "a.db", chats=1)
    export_store(tmp_path / "a.db", exports)
    [path] = exports.glob(MANIFEST)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 2, 97):
        path.write_bytes(whole[:length])
        with pytest.raises(BadExport, match="is damaged"):
            read_manifests(exports)


def test_a_manifest_under_another_name_is_refused(tmp_path: Path) -> None:
    exports = tmp_path / "x"
    make_chats(tmp_path / "a.db", chats=1)
    export_store(tmp_path / "a.db", exports)
    [path] = exports.glob(MANIFEST)
    path.with_name("copy of " + path.name).write_bytes(path.read_bytes())

    with pytest.raises(BadExport, match="which its name does not say"):
        read_manifests(exports)
