"""A requeue that was cut off and is asked for again: the second run tells what the first has done, and ends well."""

from __future__ import annotations

import json
from pathlib import Path

import click.testing
import pytest

from shardline.actors.clock import SystemClock
from shardline.runtime.control.verbs import Requeue, RowRef, verb_args
from shardline.storage.records import StoredControl
from shardline.storage.sqlite.control import ControlBox
from tests.kits.controlled import make_dead, query
from tests.kits.operated import operate

ROWS = 3
ALL = tuple(f"in-{number}" for number in range(1, ROWS + 1))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    make_dead(path, ROWS)
    return path


def requeue(store: Path, *words: str, actor: str = "ann") -> click.testing.Result:
    return operate("dlq", "requeue", *words, "--actor", actor, "--yes", "--store", store)


def leave_and_die(store: Path, *rows: str, actor: str = "ann") -> None:
    """What a command leaves that is killed before anybody has carried its decision out."""
    verb = Requeue(tuple(RowRef.parse(row) for row in rows))
    with ControlBox(store) as box:
        asked = StoredControl(
            id=f"cut-{actor}", verb="requeue", args=verb_args(verb), actor=actor,
            created_at_us=SystemClock().wall_us(),
        )  # fmt: skip
        box.leave([asked])


@pytest.mark.parametrize("rows", [ALL, ALL[:1]])
def test_what_the_first_run_left_to_be_done_is_done_once_and_the_second_ends_well(
    store: Path, rows: tuple[str, ...]
) -> None:
    leave_and_die(store, *rows)
    ended = requeue(store, *rows)

    assert (ended.exit_code, ended.stderr.count("\n")) == (0, 1), ended.output
    assert "requeued already, by an earlier decision of yours" in ended.stderr
    assert query(store, "SELECT count(*) FROM inbox WHERE generation = 1") == [(len(rows),)]
    assert query(store, "SELECT count(*) FROM control WHERE status = 'waiting'") == [(0,)]


def test_programs_read_which_rows_were_requeued_already(store: Path) -> None:
    leave_and_die(store, "in-1")
    ended = requeue(store, *ALL, "in-99", "--json")
    told = json.loads(ended.stdout)

    assert ended.exit_code == 1
    assert told["already"] == ["in-1"]
    assert told["requeued"] == ["in-2", "in-3"]
    assert told["refused"] == [{"row": "in-99", "code": "NOT_FOUND"}]


def test_a_cut_off_decision_goes_on_where_its_filters_meet_nothing_any_more(store: Path) -> None:
    leave_and_die(store, *ALL)
    # As though its owner had been killed behind the last row, before the end was noted.
    query(store, "UPDATE control SET result = ?", json.dumps({"requeued": list(ALL), "refused": []}))
    query(store, "UPDATE inbox SET status = 'queued', generation = 1, dead_at = NULL")
    ended = requeue(store, "own_code=x.first")

    assert (ended.exit_code, ended.stdout) == (0, "3 are on their way again\n"), ended.output
    assert "goes on" in ended.stderr
    assert query(store, "SELECT status FROM control") == [("done",)]
    again = requeue(store, "own_code=x.first")
    assert (again.exit_code, again.stderr) == (1, "shardline: no dead letter meets these filters\n")


def test_what_another_person_requeued_is_refused(store: Path) -> None:
    leave_and_die(store, "in-1", actor="bob")
    ended = requeue(store, "in-1")

    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.startswith("shardline: INVALID_TRANSITION: ")


def test_a_row_that_was_requeued_and_purged_since_is_refused(store: Path) -> None:
    assert requeue(store, "in-1").exit_code == 0
    query(store, "UPDATE inbox SET status = 'dead', dead_at = 1 WHERE id = 1")
    assert operate("dlq", "purge", "--older-than", "1d", "--yes", "--store", store).exit_code == 0
    ended = requeue(store, "in-1")

    assert (ended.exit_code, ended.stdout) == (1, ""), ended.output
