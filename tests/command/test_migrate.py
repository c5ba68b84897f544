import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from shardline.runtime.command import checks, doctor
from shardline.runtime.command import migrate as command
from shardline.storage.sqlite import look, migrate, upgrade
from shardline.storage.sqlite.migrate import Migration, load_migrations
from tests.kits.operated import make_store, operate, owner_of, snapshot
from tests.kits.reaped import reaped
from tests.kits.store_checks import check_store

OLD = load_migrations()[-1].number
NEW = OLD + 1
WIDEN = Migration(NEW, "CREATE TABLE extra (id INTEGER PRIMARY KEY) STRICT; INSERT INTO extra VALUES (7);")
BROKEN = Migration(NEW, "CREATE TABLE extra (id INTEGER PRIMARY KEY) STRICT; INSERT INTO nowhere VALUES (7);")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    make_store(path)
    return path


def with_newer_version(monkeypatch: pytest.MonkeyPatch, step: Migration = WIDEN) -> None:
    """Let this process be a version that knows one more migration."""
    steps = (*load_migrations(), step)
    for module in (look, upgrade, command, checks, doctor, migrate):
        monkeypatch.setattr(module, "load_migrations", lambda: steps)


def value(path: Path, statement: str) -> object:
    database = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return database.execute(statement).get
    finally:
        database.close()


def test_the_newest_has_nothing_to_do(store: Path) -> None:
    before = snapshot(store.parent)
    for options in ((), ("--check",), ("--yes",)):
        ended = operate("migrate", "--store", store, *options)

        assert (ended.exit_code, ended.stderr) == (0, "")
        assert ended.stdout == f"schema {OLD} is the newest: nothing to do\n"
    assert snapshot(store.parent) == before


def test_check_only_tells(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_newer_version(monkeypatch)
    before = snapshot(store.parent)
    ended = operate("migrate", "--check", "--store", store)

    assert ended.exit_code == 1
    assert ended.stdout == f"schema {OLD}, the newest is {NEW}: `shardline migrate` upgrades it\n"
    assert snapshot(store.parent) == before


def test_without_a_terminal_it_wants_to_be_told_yes(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_newer_version(monkeypatch)
    before = snapshot(store.parent)
    ended = operate("migrate", "--store", store)

    assert ended.exit_code == 2
    assert "--yes" in ended.stderr
    assert snapshot(store.parent) == before


def test_it_upgrades_after_a_copy_and_counts_as_no_opening(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instances = value(store, "SELECT count(*) FROM instance")
    commits = value(store, "SELECT commit_seq FROM store_commit")
    with_newer_version(monkeypatch)
    ended = operate("migrate", "--yes", "--store", store, "--json")
    [copy] = store.parent.glob("*.backup")

    assert ended.exit_code == 0
    assert json.loads(ended.stdout) == {
        "store": str(store), "schema": NEW, "newest": NEW, "is_needed": False, "backup": str(copy),
    }  # fmt: skip
    assert copy.name.startswith(f"bot.db.schema-{OLD}-")
    assert copy.stat().st_mode & 0o777 == 0o600
    assert value(copy, "SELECT schema FROM store_meta") == OLD
    assert value(copy, "PRAGMA integrity_check") == "ok"
    assert value(store, "SELECT schema FROM store_meta") == NEW
    assert value(store, "SELECT id FROM extra") == 7
    assert value(store, "SELECT count(*) FROM instance") == instances
    assert value(store, "SELECT commit_seq FROM store_commit") == commits
    assert len(check_store(store)) == 3


def test_a_crash_before_it_is_still_known_after_it(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start must find out that the last run did not end well."""
    database = apsw.Connection(str(store))
    database.execute("UPDATE instance SET clean = 0, closed_at = NULL")
    database.close()
    with_newer_version(monkeypatch)
    assert operate("migrate", "--yes", "--store", store).exit_code == 0

    assert value(store, "SELECT clean FROM instance ORDER BY id DESC LIMIT 1") == 0


def test_a_step_that_fails_changes_nothing_and_leaves_no_copy(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_newer_version(monkeypatch, BROKEN)
    ended = operate("migrate", "--yes", "--store", store)

    assert ended.exit_code == 1
    assert "STORE_IO" in ended.stderr
    assert value(store, "SELECT schema FROM store_meta") == OLD
    assert value(store, "SELECT count(*) FROM sqlite_schema WHERE name = 'extra'") == 0
    assert list(store.parent.glob("*.backup")) == []


def test_an_owner_is_not_disturbed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with owner_of(store):
        with_newer_version(monkeypatch)
        ended = operate("migrate", "--yes", "--store", store)

        assert ended.exit_code == 1
        assert "STORE_LOCKED" in ended.stderr
        assert list(store.parent.glob("*.backup")) == []


@pytest.mark.parametrize("command", [("status",), ("inbox", "list"), ("dlq", "show", "in-2")], ids=" ".join)
def test_an_older_store_is_sent_to_migrate(
    command: tuple[str, ...], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_newer_version(monkeypatch)
    ended = operate(*command, "--store", store)

    assert ended.exit_code == 1
    assert (
        f"has schema {OLD}, this version reads {NEW}: upgrade it with `shardline migrate`; a bot"
        in ended.stderr
    )


def test_doctor_says_that_the_schema_is_older(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_newer_version(monkeypatch)
    ended = operate("doctor", "--store", store)

    assert ended.exit_code == 1
    assert f"{OLD}, this version has {NEW}" in ended.stdout
    assert "sound" in ended.stdout


def test_a_person_is_asked(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal: a process that has one."""
    script = (
        "import sys\nfrom shardline.runtime.command import confirm\n"
        "confirm.confirm('really \\x1b[2J?', yes=False)\nprint('done')"
    )
    for answer, code in (("y\n", 0), ("n\n", 1), ("\n", 1)):
        ours, theirs = pty.openpty()
        with reaped(
            subprocess.Popen(
                [sys.executable, "-c", script],
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        ) as child:
            os.write(ours, answer.encode())
            out, err = child.communicate(timeout=30)
        os.close(theirs)
        os.close(ours)

        assert "really \u241b[2J?" in err
        assert (child.returncode == 0) == (code == 0)
        assert ("done" in out) == (code == 0)
