import json
import os
import re
import shutil
from pathlib import Path

import apsw
import pytest

from shardline.runtime.command import checks
from shardline.storage.sqlite import mounts
from shardline.storage.sqlite.mounts import is_unsafe, kind_in
from tests.kits.operated import make_store, operate, owner_of


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    make_store(path)
    return path


def examine(store: Path, *options: str) -> tuple[int, dict[str, dict[str, str]]]:
    """Exit code, and the worst finding under each name."""
    ended = operate("doctor", "--store", store, "--json", *options)
    found = json.loads(ended.stdout)
    assert found["ok"] == (ended.exit_code == 0)
    order = ("ok", "warn", "fail")
    return ended.exit_code, {
        check["name"]: check
        for check in sorted(found["checks"], key=lambda check: order.index(check["outcome"]))
    }


def write(store: Path, statement: str) -> None:
    database = apsw.Connection(str(store))
    database.execute(statement).fetchall()
    database.close()


def test_a_sound_store_passes(store: Path) -> None:
    code, found = examine(store, "--full")

    assert code == 0
    assert {name for name, check in found.items() if check["outcome"] != "ok"} == {"uncertain", "dead"}
    assert {"file system", "room", "files", "versions", "schema", "log", "owner", "clock"} <= found.keys()
    assert {"integrity", "history"} <= found.keys()
    assert all(bool(check["action"]) == (check["outcome"] != "ok") for check in found.values())


def test_it_works_beside_a_live_owner(store: Path) -> None:
    with owner_of(store) as pid:
        code, found = examine(store, "--full")

    assert code == 0
    assert f"process {pid} on" in found["owner"]["text"]


@pytest.mark.parametrize(
    ("statement", "name", "outcome", "words"),
    [
        ("UPDATE history SET claim = claim + 1 WHERE id = 2", "history", "fail", "history row"),
        (
            "DELETE FROM history WHERE id = (SELECT max(id) FROM history)",
            "history",
            "fail",
            "ends before its head",
        ),
        ("UPDATE shard SET h = zeroblob(32)", "history", "fail", "not the row that the stored head names"),
        ("UPDATE instance SET opened_at = opened_at + 3600000000", "clock", "warn", "still to come"),
        ("UPDATE instance SET clean = 0, closed_at = NULL", "owner", "warn", "without closing"),
        ("PRAGMA journal_mode = DELETE", "log", "fail", "not in WAL mode"),
        ("UPDATE store_meta SET schema = 99", "schema", "fail", "99"),
    ],
)
def test_what_is_wrong_is_found(store: Path, statement: str, name: str, outcome: str, words: str) -> None:
    write(store, statement)
    code, found = examine(store, "--full")

    assert found[name]["outcome"] == outcome
    assert words in found[name]["text"]
    assert found[name]["action"]
    assert code == (outcome == "fail")


def test_a_damaged_index_is_found_by_the_full_check_alone(store: Path) -> None:
    database = apsw.Connection(str(store))
    database.execute("PRAGMA writable_schema = ON")
    database.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'dead_at, id', 'id, dead_at') WHERE name = 'inbox_dead'"
    )
    database.close()

    assert examine(store)[0] == 0
    code, found = examine(store, "--full")
    assert code == 1
    assert found["integrity"]["outcome"] == "fail"


def test_files_that_others_may_read_are_named(store: Path) -> None:
    store.chmod(0o644)
    code, found = examine(store)

    assert code == 0
    assert found["files"]["outcome"] == "warn"
    assert "bot.db has mode 0644" in found["files"]["text"]
    assert found["files"]["action"].startswith("chmod 600 ")


def test_a_full_disk_fails(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(store.parent)
    for free, outcome in ((10 * checks.MIB, "fail"), (500 * checks.MIB, "warn"), (5000 * checks.MIB, "ok")):
        monkeypatch.setattr(shutil, "disk_usage", {store.parent: usage._replace(free=free)}.__getitem__)
        code, found = examine(store)

        assert found["room"]["outcome"] == outcome
        assert code == (outcome == "fail")


@pytest.mark.parametrize(
    ("kind", "code"), [("nfs4", 1), ("cifs", 1), ("9p", 1), ("fuse.sshfs", 1), ("xfs", 0)]
)
def test_a_file_system_without_safe_locks_fails(
    store: Path, kind: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = tmp_path / "mounts"
    listing.write_text(f"disk / ext4 rw 0 0\nother {os.path.realpath(store.parent)} {kind} rw 0 0\n")
    monkeypatch.setattr(mounts, "_MOUNTS", listing)
    ended, found = examine(store)

    assert ended == code
    assert kind in found["file system"]["text"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/a", "ext4"),
        ("/data/x.db", "nfs"),
        ("/database", "ext4"),
        ("/my disk/x", "tmpfs"),
        ("/data/over/x", "xfs"),
    ],
)
def test_the_innermost_and_last_mount_counts(path: str, kind: str) -> None:
    listing = (
        "a / ext4 rw 0 0\nb /data nfs rw 0 0\nc /my\\040disk tmpfs rw 0 0\nd /data/over 9p rw 0 0\n"
        "e /data/over xfs rw 0 0\nbroken\n"
    )

    assert kind_in(listing, path) == kind


def test_real_disks_under_fuse_are_safe() -> None:
    assert [is_unsafe(kind) for kind in ("fuse.sshfs", "fuse", "fuseblk", "ext4")] == [
        True,
        True,
        False,
        False,
    ]


def test_people_get_one_line_a_check_and_what_to_do_below_it(store: Path) -> None:
    lines = operate("doctor", "--store", store).stdout.splitlines()

    assert all(re.match(r"(ok  |warn|fail|    )  ", line) for line in lines)


def test_how_a_store_changes_hands_is_told_and_nothing_is_changed(store: Path) -> None:
    before = store.read_bytes()
    done = operate("doctor", "--store", str(store), "--adopt-account")

    assert done.exit_code == 2
    assert f"shardline telegram --store {store} --adopt-account" in done.output
    assert store.read_bytes() == before
