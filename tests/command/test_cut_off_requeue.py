"""A requeue that was cut off and is asked for again carries on what the first has left to be done."""

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


def test_another_persons_decision_is_left_to_the_owner(store: Path) -> None:
    leave_and_die(store, *ALL, actor="bob")
    query(store, "UPDATE inbox SET status = 'queued', generation = 1, dead_at = NULL")
    ended = requeue(store, "own_code=x.first")

    assert (ended.exit_code, ended.stderr) == (1, "shardline: no dead letter meets these filters\n")
