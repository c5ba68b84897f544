"""Looking from outside: nothing is made, changed or locked, and what was read is what was committed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import apsw
import pytest

from shardline import BusError, Code
from shardline.storage.records import StoredInbox
from shardline.storage.sqlite import look as module
from shardline.storage.sqlite.look import Look
from shardline.storage.sqlite.reader import SqliteReader
from shardline.storage.sqlite.resting import connect_resting, is_at_rest
from tests.kits.operated import make_store, owner_of, snapshot


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    make_store(path, texts=("good",) * 5)
    return path


def count(connection: apsw.Connection) -> int:
    return cast("int", connection.execute("SELECT count(*) FROM inbox").get)


def test_a_store_at_rest_is_read_as_it_lies_there(store: Path) -> None:
    before = snapshot(store.parent)
    with Look(store) as look:
        assert look.read(count) == 5
        assert look.ask(lambda reader: reader.inbox(1)) is not None

    assert snapshot(store.parent) == before
    assert is_at_rest(store)


def test_nothing_can_be_written_while_looking(store: Path) -> None:
    with Look(store) as look, pytest.raises(BusError) as caught:
        look.read(lambda db: db.execute("DELETE FROM inbox").fetchall())

    assert caught.value.code is Code.STORE_IO


class Writer:
    """A connection as an owner has it: it writes and copies its log into the file at once."""

    def __init__(self, path: Path) -> None:
        self.connection = apsw.Connection(str(path))
        self.connection.execute("PRAGMA journal_mode = WAL").fetchall()

    def delete(self, row_id: int) -> None:
        self.connection.execute("DELETE FROM inbox WHERE id = ?", (row_id,))
        self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        self.connection.close()


@pytest.mark.parametrize("stays", [True, False])
def test_an_owner_that_comes_while_a_store_at_rest_is_read_is_noticed(store: Path, stays: bool) -> None:
    """It rewrites the file under the reader and is even gone at the end: the answer is read again, beside it."""
    writers: list[Writer] = []

    def ask(connection: apsw.Connection) -> int:
        seen = count(connection)
        if not writers:
            writers.append(Writer(store))
            writers[0].delete(3)
            if not stays:
                writers[0].close()
        return seen

    with Look(store) as look:
        found = look.read(ask)
    writers[0].close()

    assert found == 4


def test_a_visit_of_an_owner_between_two_reads_is_seen(store: Path) -> None:
    with Look(store) as look:
        assert look.read(count) == 5
        writer = Writer(store)
        writer.delete(3)
        writer.close()

        assert look.read(count) == 4


def test_an_error_that_an_owner_caused_is_not_believed(store: Path) -> None:
    writers: list[Writer] = []

    def ask(connection: apsw.Connection) -> int:
        if not writers:
            writers.append(Writer(store))
            raise apsw.CorruptError("half of the pages are new")
        return count(connection)

    with Look(store) as look:
        assert look.read(ask) == 5
    writers[0].close()


def test_one_read_after_another_is_a_transaction_of_its_own(store: Path) -> None:
    """A reader that stayed in one would keep the owner's log from being begun anew."""
    with owner_of(store), Look(store) as look:
        look.read(count)
        writer = apsw.Connection(str(store))
        writer.execute("UPDATE store_meta SET created_at = created_at")

        assert writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE) == (0, 0)
        writer.close()


def test_what_a_killed_owner_left_is_read_without_cleaning_up(store: Path) -> None:
    script = (
        "import apsw, os, signal, sys\nc = apsw.Connection(sys.argv[1])\nc.execute('DELETE FROM inbox WHERE id = 1')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(store)], timeout=30, check=False)
    before = snapshot(store.parent)
    with Look(store) as look:
        assert look.read(count) == 4

    assert done.returncode == -signal.SIGKILL
    assert before["bot.db-wal"]
    assert snapshot(store.parent) == before


def test_an_empty_log_that_lies_there_is_passed_over(store: Path) -> None:
    (store.parent / "bot.db-wal").touch()
    before = snapshot(store.parent)
    with Look(store) as look:
        assert look.read(count) == 5

    assert snapshot(store.parent) == before


def test_a_lock_taken_by_sqlite_keeps_the_files_of_an_owner_that_leaves(store: Path) -> None:
    """What the proof of `resting` stands on: no reader in a transaction, no trace removed."""
    reader = connect_resting(store)
    reader.execute("BEGIN")
    assert count(reader) == 5
    writer = Writer(store)
    writer.close()

    assert not is_at_rest(store)
    reader.close()


def _reading(row_id: int) -> Callable[[SqliteReader], StoredInbox | None]:
    return lambda reader: reader.inbox(row_id)


def test_a_row_that_no_store_writes_is_a_typed_error(store: Path) -> None:
    database = apsw.Connection(str(store))
    database.execute("UPDATE inbox SET status = 'lost' WHERE id = 1")
    database.execute("UPDATE inbox SET errors = 'no json' WHERE id = 2")
    database.execute("UPDATE inbox SET body = x'c1' WHERE id = 3")
    database.close()
    with Look(store) as look:
        for row_id in (1, 2, 3):
            with pytest.raises(BusError) as caught:
                look.ask(_reading(row_id))

            assert caught.value.code in {Code.STORE_CORRUPT, Code.INVALID_MESSAGE}


def test_a_file_that_is_gone_meanwhile_is_not_made_anew(store: Path) -> None:
    with Look(store) as look:
        os.unlink(store)
        with pytest.raises(BusError) as caught:
            look.read(count)

    assert caught.value.code is Code.NOT_FOUND
    assert not store.exists()


def _answering(answers: Iterator[bool]) -> Callable[[Path], bool]:
    def answer(path: Path) -> bool:
        return next(answers)

    return answer


def test_a_store_without_end_of_owners_is_busy(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Awake at each look, at rest at each check: reading never ends, so it is given up."""
    with Look(store) as look:

        def flicker() -> Iterator[bool]:
            while True:
                yield True
                yield False
                yield False

        answers = flicker()
        monkeypatch.setattr(module, "is_at_rest", _answering(answers))
        with pytest.raises(BusError) as caught:
            look.read(count)

    assert caught.value.code is Code.STORE_BUSY
