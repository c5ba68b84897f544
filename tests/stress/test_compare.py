"""The comparison finds every kind of damage in what a good run has left."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import apsw
import attrs
import pytest

from tests.stress.child import STORE
from tests.stress.compare import differences
from tests.stress.drive import Report, drive
from tests.stress.found import read_found
from tests.stress.order import wrong_arrivals
from tests.stress.plan import Plan, Sizes

SIZES = Sizes(conversations=12, messages=400, kills=0)
SEED = 3


@attrs.frozen
class Left:
    """A folder as a good run has left it."""

    folder: Path
    report: Report


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    folder = tmp_path_factory.mktemp("left")
    return Left(folder, drive(folder, SEED, SIZES))


def busiest(folder: Path) -> Path:
    """The ledger with the most lines."""
    return max(folder.glob("*.ledger"), key=lambda path: len(path.read_text().splitlines()))


def edited(edit: Callable[[list[str]], Sequence[str]]) -> Callable[[Path], None]:
    """A change to the lines of a ledger."""

    def change(folder: Path) -> None:
        path = busiest(folder)
        path.write_text("\n".join(edit(path.read_text().splitlines())) + "\n")

    return change


def run(*statements: str) -> Callable[[Path], None]:
    """A change to the store."""

    def change(folder: Path) -> None:
        database = apsw.Connection(str(folder / STORE))
        try:
            for statement in statements:
                database.execute(statement)
            assert database.changes(), statements
        finally:
            database.close()

    return change


FIRST_DONE = "(SELECT min(id) FROM inbox WHERE status = 'done')"
FIRST_SENT = "(SELECT min(id) FROM outbox WHERE status = 'sent')"
DAMAGES = {
    "a message is gone": (run(f"DELETE FROM inbox WHERE id = {FIRST_DONE}"), ": lost"),
    "a message is there twice": (
        run(
            "CREATE TEMP TABLE t AS SELECT * FROM inbox WHERE status = 'done' LIMIT 1",
            "UPDATE t SET id = 1000000, off = 1000000, seq = 1000000, dedupe_key = 'again'",
            "INSERT INTO inbox SELECT * FROM t",
        ),
        "stored 2 times",
    ),
    "a message runs": (run(f"UPDATE inbox SET status = 'running' WHERE id = {FIRST_DONE}"), "is running"),
    "a message is in another conversation": (
        run(f"UPDATE inbox SET conversation_key = 'sure:c999' WHERE id = {FIRST_DONE}"),
        "in sure:c999 is done",
    ),
    "a failure is not counted": (run("UPDATE inbox SET failures = 0 WHERE failures = 2"), "0 failures"),
    "a message died of another code": (
        run("UPDATE inbox SET own_code = 'x.other' WHERE own_code = 'x.stress'"),
        "x.other, wanted x.stress",
    ),
    "two messages changed places": (
        run(f"UPDATE inbox SET seq = 1000000 WHERE id = {FIRST_DONE}"),
        "is not the order of arrival",
    ),
    "a state is gone": (
        run("DELETE FROM conversation WHERE key = (SELECT min(key) FROM conversation)"),
        "its state is that of None turns",
    ),
    "a send is gone": (run(f"DELETE FROM outbox WHERE id = {FIRST_SENT}"), "0 sends, wanted 1"),
    "a send flies": (
        run(f"UPDATE outbox SET status = 'pending', in_flight = 1 WHERE id = {FIRST_SENT}"),
        "it ends as flying",
    ),
    "a send is dead": (
        run(f"UPDATE outbox SET status = 'failed', dead_at = 1 WHERE id = {FIRST_SENT}"),
        "it ends as dead",
    ),
    "an event is gone": (
        run("DELETE FROM event WHERE id = (SELECT max(id) FROM event)"),
        "0 events, wanted 1",
    ),
    "the history is another one": (run("UPDATE history SET claim = 9 WHERE id = 50"), "history, changed"),
    "a row of the history is gone": (
        run("DELETE FROM history WHERE id = (SELECT max(id) FROM history)"),
        "history, cut_off",
    ),
    "a send did not take place": (edited(lambda lines: lines[1:]), "said to be sent and did not go out"),
    "a send took place twice": (edited(lambda lines: [lines[0], *lines]), "twice under one claim"),
    "a send took place later": (edited(lambda lines: [*lines[1:], lines[0]]), "went out after that of"),
    "a send took place that nobody decided": (
        edited(lambda lines: [*lines, "1\tother\tsure:c0\tm1/0 ok"]),
        "and not in the store",
    ),
    "a send took place under a claim of its own": (
        edited(lambda lines: [f"7{lines[0][1:]}", *lines[1:]]),
        "a claim that was not on disk",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found(left: Left, tmp_path: Path, damage: str) -> None:
    assert left.report.differences == []
    folder = tmp_path / "copy"
    shutil.copytree(left.folder, folder)
    change, wanted = DAMAGES[damage]
    change(folder)

    found = differences(Plan(SEED, SIZES), folder / STORE)
    assert [line for line in found if wanted in line], found


def test_messages_that_came_in_in_another_order_are_found(left: Left) -> None:
    found, read = read_found(left.folder / STORE), Plan(SEED, SIZES).read_numbers()

    assert not list(wrong_arrivals(found, read))
    last = max(read.values())
    backwards = {name: last - number for name, number in read.items()}
    assert len(list(wrong_arrivals(found, backwards))) > len(read) / 2
