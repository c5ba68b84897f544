"""What an export holds: exact values, a second one that only adds, and one consistent moment."""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import apsw
import pytest

from shardline.actors.errors import BusError, Code
from tests.kits.audited import Tampered, make_chats

pytest.importorskip("pyarrow", reason="the extra `audit` is not installed")

from shardline.storage.audit.export import export_store
from shardline.storage.audit.manifest import BadExport, Manifest, read_manifests
from shardline.storage.audit.snapshot import open_snapshot
from shardline.storage.audit.tables import TABLES
from shardline.storage.sqlite.migrate import load_migrations

BIG = 2**62 + 1
DAY_US = 86_400_000_000


class Frame(Protocol):
    def to_pylist(self) -> list[dict[str, object]]: ...


def rows_of(folder: Path, manifest: Manifest, table: str) -> list[dict[str, object]]:
    parquet = import_module("pyarrow.parquet")
    files = [
        cast("Frame", parquet.ParquetFile(folder / name).read()) for name in manifest.tables[table].files
    ]
    return [row for file in files for row in file.to_pylist()]


def test_every_value_arrives_as_it_is(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    make_chats(store, chats=2)
    database = apsw.Connection(str(store))
    database.execute("UPDATE inbox SET done_at = ? WHERE id = 2", (BIG,))
    manifest = export_store(store, tmp_path / "x")

    for name in TABLES:
        columns = [column.name for column in TABLES[name].columns if column.name != "content_hash"]
        quoted = ", ".join(f'"{column}"' for column in columns)
        want = database.execute(f"SELECT {quoted} FROM {name}").fetchall()
        got = [tuple(row[column] for column in columns) for row in rows_of(tmp_path / "x", manifest, name)]
        assert sorted(got, key=repr) == sorted(want, key=repr)
        assert manifest.tables[name].rows == len(want)
    assert BIG in {row["done_at"] for row in rows_of(tmp_path / "x", manifest, "inbox")}
    assert read_manifests(tmp_path / "x") == [manifest]
    assert not list((tmp_path / "x").glob(".snapshot-*"))
    database.close()


def test_a_manifest_says_which_rows_and_which_schema(tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=2, events=3)
    numbers = {"inbox": "change_seq", "outbox": "change_seq", "history": "hseq", "event": "id"}
    with Tampered(store, relink=False) as asked:
        wanted = {
            name: asked.rows(f"SELECT count(*), min({number}), max({number}) FROM {name}")
            for name, number in numbers.items()
        }
        schema = asked.value("SELECT schema FROM store_meta")
    first = export_store(store, exports)
    with Tampered(store, relink=False) as changed:
        changed.run("UPDATE outbox SET change_seq = 1000 + id WHERE id > 2")
        changed.run("UPDATE store_commit SET change_seq = 2000")
    second = export_store(store, exports)

    bounds = {name: [(part.rows, part.min_seq, part.max_seq)] for name, part in first.tables.items()}
    assert {name: bounds[name] for name in numbers} == wanted
    assert {bounds[name][0][1:] for name in bounds.keys() - numbers.keys()} == {(None, None)}
    assert (first.schema, second.schema) == (schema, len(load_migrations()))
    again = second.tables["outbox"]
    assert (again.rows, again.min_seq, again.max_seq) == (2, 1003, 1004)
    assert (second.tables["inbox"].rows, second.tables["inbox"].max_seq) == (0, None)


def test_rows_lie_in_folders_of_their_day_and_channel(tmp_path: Path) -> None:
    """A message that came by no channel too, and one of a channel whose name is no name of a folder."""
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=2)
    with Tampered(store, relink=False) as days:
        days.run("UPDATE inbox SET accepted_at = 0, channel = NULL WHERE id = 1")
        days.run("UPDATE inbox SET accepted_at = ? WHERE id = 2", DAY_US - 1)
        days.run("UPDATE inbox SET accepted_at = ?, channel = 'a/b=c' WHERE id = 3", DAY_US)
        days.run("UPDATE inbox SET accepted_at = ? WHERE id = 4", 20_000 * DAY_US)
    manifest = export_store(store, exports)
    root = exports / f"inbox/store={manifest.store}"
    names = manifest.tables["inbox"].files

    assert {path.relative_to(root).parent.as_posix() for path in root.rglob("*.parquet")} == {
        "dt=1970-01-01/channel=__HIVE_DEFAULT_PARTITION__",
        "dt=1970-01-01/channel=fake",
        "dt=1970-01-02/channel=a%2Fb%3Dc",
        "dt=2024-10-04/channel=fake",
    }
    assert {exports / name for name in names} == set(root.rglob("*.parquet"))


def test_no_text_of_a_message_is_exported(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    make_chats(store, chats=2)
    manifest = export_store(store, tmp_path / "x")

    for name in TABLES:
        assert "text 1" not in repr(rows_of(tmp_path / "x", manifest, name))


def test_a_second_export_adds_what_has_changed(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    make_chats(store, chats=2)
    first = export_store(store, tmp_path / "x")
    same = export_store(store, tmp_path / "x")
    database = apsw.Connection(str(store))
    database.execute("UPDATE store_commit SET change_seq = change_seq + 1, commit_seq = commit_seq + 1")
    database.execute("UPDATE outbox SET change_seq = (SELECT change_seq FROM store_commit) WHERE id = 3")
    database.close()
    third = export_store(store, tmp_path / "x")

    assert first.tables["history"].rows > 0
    assert {same.tables[name].rows for name in ("inbox", "outbox", "history", "event")} == {0}
    assert [row["id"] for row in rows_of(tmp_path / "x", third, "outbox")] == [3]
    assert [one.number for one in read_manifests(tmp_path / "x")] == [1, 2, 3]


def test_an_event_that_takes_its_place_late_is_exported(tmp_path: Path) -> None:
    """Its id was drawn before that of one that is exported already: by another shard, or for a relay."""
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1, events=2)
    with Tampered(store, relink=False) as early:
        early.run("UPDATE event SET id = 5 WHERE id = 2")
        early.run("UPDATE store_commit SET next_event_id = 6")
    export_store(store, exports)
    with Tampered(store, relink=False) as late:
        late.run(
            "INSERT INTO event (id, shard, topic, part, off, ts, codec, body)"
            " SELECT 3, shard, topic, part, off + 1, ts, codec, body FROM event WHERE id = 5"
        )
    second = export_store(store, exports)
    third = export_store(store, exports)

    assert [(row["id"], row["off"]) for row in rows_of(exports, second, "event")] == [(3, 2)]
    assert rows_of(exports, third, "event") == []


def test_an_older_store_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    make_chats(store, chats=1)
    export_store(store, tmp_path / "x")
    database = apsw.Connection(str(store))
    database.execute("UPDATE store_commit SET commit_seq = commit_seq - 1")
    database.close()

    with pytest.raises(BusError) as refused:
        export_store(store, tmp_path / "x")
    assert refused.value.code is Code.STORE_MISMATCH


@pytest.mark.parametrize("left", [0, 1])
def test_history_that_no_export_has_seen_is_told(tmp_path: Path, left: int) -> None:
    """A hole would be a fault to every later audit; a new folder begins where the history does."""
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    export_store(store, exports)
    make_chats(store, chats=2)
    with Tampered(store, relink=False) as pruned:
        pruned.run(
            "DELETE FROM history WHERE hseq <= (SELECT hseq FROM shard WHERE shard.shard = history.shard) - ?",
            left,
        )

    with pytest.raises(BusError, match="into a new folder") as refused:
        export_store(store, exports)
    assert refused.value.code is Code.STORE_MISMATCH
    assert [one.number for one in read_manifests(exports)] == [1]
    assert export_store(store, tmp_path / "y").number == 1


def test_history_that_was_seen_may_be_taken_away(tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=1)
    export_store(store, exports)
    with Tampered(store, relink=False) as pruned:
        pruned.run("DELETE FROM history")

    assert export_store(store, exports).tables["history"].rows == 0


def test_a_missing_manifest_is_told(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    make_chats(store, chats=1)
    for _ in range(2):
        export_store(store, tmp_path / "x")
    next((tmp_path / "x/manifest").glob("*-000001.json")).unlink()

    with pytest.raises(BadExport, match="export 1"):
        read_manifests(tmp_path / "x")


def test_a_copy_is_of_one_moment_while_somebody_writes(tmp_path: Path) -> None:
    """The writer moves two counters together; no copy may see one without the other."""
    store = tmp_path / "a.db"
    make_chats(store, chats=1)
    stop, moved = threading.Event(), threading.Event()

    def write() -> None:
        database = apsw.Connection(str(store))
        database.set_busy_timeout(5000)
        while not stop.is_set():
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE store_commit SET commit_seq = commit_seq + 1")
            database.execute("UPDATE shard SET seq = (SELECT commit_seq FROM store_commit)")
            database.execute("COMMIT")
            moved.set()
        database.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert moved.wait(20)
        seen: list[int] = []
        for _ in range(20):
            with open_snapshot(store, tmp_path) as snapshot:
                [(commit_seq, least, most)] = cast(
                    "list[tuple[int, int, int]]",
                    snapshot.database.execute(
                        "SELECT commit_seq, min(seq), max(seq) FROM store_commit, shard"
                    ).fetchall(),
                )
            assert least == most == commit_seq
            seen.append(commit_seq)
    finally:
        stop.set()
        writer.join()
    assert len(set(seen)) > 1
