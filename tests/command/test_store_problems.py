"""Every command over every kind of store that is none, or cannot be read: one line, a code, nothing changed."""

import fcntl
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from shardline.storage.sqlite import database
from tests.kits.operated import make_store, operate, owner_of, snapshot

LOOKS = (
    ("status",),
    ("inbox", "list"),
    ("inbox", "show", "1"),
    ("outbox", "list"),
    ("outbox", "show", "out-1"),
    ("dlq", "list"),
    ("dlq", "show", "in-1"),
    ("doctor",),
    ("migrate", "--check"),
    ("control", "list"),
)
DECISIONS = (
    ("dlq", "requeue", "in-1"),
    ("dlq", "requeue", "code=HANDLER_FAILED", "--yes"),
    ("dlq", "purge", "--older-than", "1d", "--yes"),
    ("outbox", "resolve", "out-1", "--sent", "--yes"),
    ("outbox", "cancel", "out-1", "--yes"),
    ("publish", "--key", "fake:1", "--text", "hi"),
)
looks = pytest.mark.parametrize("command", LOOKS, ids=" ".join)
everything = pytest.mark.parametrize("command", LOOKS + DECISIONS, ids=" ".join)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("made") / "bot.db"
    make_store(path)
    return path.read_bytes()


def write_empty(path: Path, content: bytes) -> None:
    path.touch()


def write_text(path: Path, content: bytes) -> None:
    path.write_text("my notes\n" * 1000)


def write_other_database(path: Path, content: bytes) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE notes (text)")
    other.close()


def write_newer(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    store = apsw.Connection(str(path))
    store.execute("UPDATE store_meta SET schema = 99")
    store.close()


def write_truncated(path: Path, content: bytes) -> None:
    path.write_bytes(content[:8192])


def write_garbage_head(path: Path, content: bytes) -> None:
    path.write_bytes(os.urandom(4096) + content[4096:])


def write_garbage_pages(path: Path, content: bytes) -> None:
    path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))


BROKEN: tuple[tuple[Callable[[Path, bytes], None], str], ...] = (
    (write_empty, "the file is empty"),
    (write_text, "STORE_CORRUPT"),
    (write_other_database, "another program's database"),
    (write_newer, "SCHEMA_TOO_NEW"),
    (write_truncated, "STORE_CORRUPT"),
    (write_garbage_head, "STORE_CORRUPT"),
    (write_garbage_pages, "STORE_CORRUPT"),
)


@everything
@pytest.mark.parametrize(("write", "words"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_a_store_that_is_none_or_broken_is_one_line_and_stays_as_it_is(
    command: tuple[str, ...], write: Callable[[Path, bytes], None], words: str, made: bytes, tmp_path: Path
) -> None:
    store = tmp_path / "bot.db"
    write(store, made)
    before = snapshot(tmp_path)
    ended = operate(*command, "--store", store)

    assert snapshot(tmp_path) == before
    assert ended.exit_code == 1, ended.output
    if command == ("doctor",):
        assert ended.stderr == ""
        assert "fail" in ended.stdout
        assert words in ended.stdout or "schema       99" in ended.stdout
    else:
        assert ended.stdout == ""
        assert ended.stderr.startswith("shardline: ")
        assert ended.stderr.count("\n") == 1
        assert words in ended.stderr
        assert str(store) in ended.stderr


@everything
@pytest.mark.parametrize("kind", ["missing", "link", "folder", "device"])
def test_a_path_that_is_no_file_is_exit_2(
    command: tuple[str, ...], kind: str, made: bytes, tmp_path: Path
) -> None:
    (tmp_path / "real.db").write_bytes(made)
    (tmp_path / "link").symlink_to("real.db")
    (tmp_path / "folder").mkdir()
    store = Path("/dev/zero") if kind == "device" else tmp_path / kind
    ended = operate(*command, "--store", store)

    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"shardline: --store {store} ")
    assert ended.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link", "real.db"]


@everything
def test_without_a_store_the_command_says_how_to_name_one(command: tuple[str, ...]) -> None:
    ended = operate(*command, env={"SHARDLINE_STORE": ""})

    assert ended.exit_code == 2
    assert "--store" in ended.stderr
    assert "SHARDLINE_STORE" in ended.stderr


@looks
def test_the_store_may_come_from_the_environment(
    command: tuple[str, ...], made: bytes, tmp_path: Path
) -> None:
    (tmp_path / "bot.db").write_bytes(made)

    assert operate(*command, env={"SHARDLINE_STORE": str(tmp_path / "bot.db")}).exit_code == 0


@looks
def test_a_store_at_rest_is_read_and_nothing_is_made_or_changed(
    command: tuple[str, ...], made: bytes, tmp_path: Path
) -> None:
    (tmp_path / "bot.db").write_bytes(made)
    before = snapshot(tmp_path)
    ended = operate(*command, "--store", tmp_path / "bot.db")

    assert ended.exit_code == 0, ended.output
    assert ended.stderr in {"", "no such decision\n"}
    assert snapshot(tmp_path) == before


@looks
def test_a_lock_that_somebody_holds_keeps_nobody_from_looking(
    command: tuple[str, ...], made: bytes, tmp_path: Path
) -> None:
    (tmp_path / "bot.db").write_bytes(made)
    with (tmp_path / "bot.db.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert operate(*command, "--store", tmp_path / "bot.db").exit_code == 0


@looks
def test_a_database_that_another_program_keeps_to_itself_is_busy(
    command: tuple[str, ...], made: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 10)
    store = tmp_path / "bot.db"
    store.write_bytes(made)
    other = apsw.Connection(str(store))
    try:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        ended = operate(*command, "--store", store)
    finally:
        other.close()

    assert ended.exit_code == 1
    assert "STORE_BUSY" in ended.output
    assert ended.output.count("STORE_BUSY") == 1


def test_beside_a_live_owner_every_look_works_and_leaves_the_files_alone(made: bytes, tmp_path: Path) -> None:
    store = tmp_path / "bot.db"
    store.write_bytes(made)
    with owner_of(store) as pid:
        before = snapshot(tmp_path)
        for command in LOOKS:
            ended = operate(*command, "--store", store)

            assert ended.exit_code == 0, ended.output
            assert snapshot(tmp_path) == before, command
        assert f"process {pid} on " in operate("status", "--store", store).stdout
        assert "hello" in operate("inbox", "list", "--store", store).stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bot.db", "bot.db.lock"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@looks
def test_a_store_without_permission_is_exit_2(command: tuple[str, ...], made: bytes, tmp_path: Path) -> None:
    (tmp_path / "bot.db").write_bytes(made)
    (tmp_path / "bot.db").chmod(0)
    ended = operate(*command, "--store", tmp_path / "bot.db")

    assert ended.exit_code == 2
    assert "cannot be read" in ended.stderr
