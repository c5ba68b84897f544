"""A decision of several commits that is cut off between two of them goes on where it was, and tells all that it did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
import trio

from shardline.actors.clock import SystemClock
from shardline.actors.errors import BusError, Code
from shardline.runtime.control.actor import ControlActor
from shardline.runtime.control.client import find_control
from shardline.runtime.control.execute import Tries, execute
from shardline.runtime.control.hands import StoreHands
from shardline.runtime.control.verbs import Purge, Requeue, RowRef, Verb, verb_args, verb_word
from shardline.storage.commands import Commit
from shardline.storage.records import ControlStatus, StoredControl
from shardline.storage.sqlite import open_sqlite
from shardline.storage.sqlite.control import ControlBox
from tests.kits.controlled import decide, make_dead, query

ROWS = 6
ALL = Requeue(tuple(RowRef("in", number) for number in range(1, ROWS + 1)))
EVERYTHING = Purge(2**62)


class Killed(BaseException):
    """The process is gone."""


class MortalHands(StoreHands):
    """Carries decisions out until it has committed so often. A kill stops everything, an error what changes rows."""

    commits_left: int
    ends_with: Callable[[], BaseException] = Killed

    async def commit(self, shard: int, commit: Commit) -> None:
        if commit.inbox or commit.purges or self.ends_with is Killed:
            if not self.commits_left:
                raise self.ends_with()
            self.commits_left -= 1
        await super().commit(shard, commit)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "bot.db"
    make_dead(path, ROWS)
    return path


def leave(path: Path, verb: Verb) -> None:
    with ControlBox(path) as box:
        box.leave(
            StoredControl(
                id="c1",
                verb=verb_word(verb),
                args=verb_args(verb),
                actor="a test",
                created_at_us=SystemClock().wall_us(),
            )
        )


def own_until(path: Path, commits: int, ends_with: Callable[[], BaseException] = Killed) -> None:
    """Own the store and carry out what waits, until after so many commits everything ends."""

    async def main() -> None:
        journal = open_sqlite(path)
        async with trio.open_nursery() as nursery:
            await nursery.start(journal.run)
            hands = MortalHands(journal, SystemClock())
            hands.commits_left, hands.ends_with = commits, ends_with
            await ControlActor(hands, structlog.get_logger()).work_off()
            nursery.cancel_scope.cancel()

    try:
        trio.run(main)
    except* Killed:
        pass


@pytest.mark.parametrize("commits", range(ROWS + 1))
def test_a_requeue_of_several_rows_names_each_that_it_requeued(store: Path, commits: int) -> None:
    leave(store, ALL)
    own_until(store, commits)
    cut = find_control(store, "c1")
    assert (cut.status, cut.values) == ("waiting", {})
    result = decide(store, ALL, control_id="c1")

    assert result.status == "done"
    assert result.values == {"requeued": [str(row) for row in ALL.rows], "refused": []}
    assert query(store, "SELECT DISTINCT status, generation FROM inbox") == [("queued", 1)]


def test_a_row_that_is_parked_again_meanwhile_is_not_requeued_again(store: Path) -> None:
    leave(store, ALL)
    own_until(store, 2)
    # As a bot that has lost its handler leaves it.
    query(store, "UPDATE inbox SET status = 'parked', dead_at = NULL WHERE id = 1")
    result = decide(store, ALL, control_id="c1")

    assert result.values == {"requeued": [str(row) for row in ALL.rows], "refused": []}
    assert query(store, "SELECT status, generation FROM inbox WHERE id = 1") == [("parked", 1)]


def test_what_was_refused_before_the_cut_is_told_too(store: Path) -> None:
    rows = Requeue((RowRef("in", 99), *ALL.rows))
    leave(store, rows)
    own_until(store, 3)
    result = decide(store, rows, control_id="c1")

    assert result.values["requeued"] == [str(row) for row in ALL.rows]
    assert result.values["refused"] == [{"row": "in-99", "code": "NOT_FOUND"}]


@pytest.mark.parametrize("commits", range(ROWS + 1))
def test_a_purge_counts_what_it_emptied_before_it_was_cut_off(store: Path, commits: int) -> None:
    leave(store, EVERYTHING)
    own_until(store, commits)
    result = decide(store, EVERYTHING, control_id="c1")

    assert result.status == "done"
    assert result.values == {"purged": ROWS, "messages": ROWS, "sends": 0}
    assert query(store, "SELECT count(*) FROM history WHERE event = 'purge'") == [(ROWS,)]


@pytest.mark.parametrize("verb", [ALL, EVERYTHING, Requeue((RowRef("in", 1),))])
@pytest.mark.parametrize("code", [Code.FENCED, Code.STORE_FULL, Code.BUS_CLOSED])
def test_what_will_pass_puts_a_decision_off_and_refuses_nothing(store: Path, verb: Verb, code: Code) -> None:
    leave(store, verb)
    own_until(store, 0, lambda: BusError(code, "just now"))

    with ControlBox(store) as box:
        assert box.read("c1").status is ControlStatus.WAITING
    result = decide(store, verb, control_id="c1")
    assert (result.status, result.values.get("refused", [])) == ("done", [])


async def test_a_purge_whose_record_has_ended_ends(store: Path) -> None:
    leave(store, EVERYTHING)
    journal = open_sqlite(store, durability="normal")
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        hands = StoreHands(journal, SystemClock())
        [control] = journal.reader.waiting_controls(9)
        query(store, "UPDATE control SET status = 'done'")
        with trio.fail_after(10):
            await execute(control, hands, structlog.get_logger(), Tries())
        nursery.cancel_scope.cancel()

    assert query(store, "SELECT DISTINCT status FROM inbox") == [("dead",)]


@pytest.mark.parametrize("progress", ["{", "[]", '{"requeued": 7, "refused": {}}', '{"messages": "x"}'])
@pytest.mark.parametrize(
    ("verb", "status", "code", "rows"),
    [
        (ALL, "done", None, "queued"),
        (EVERYTHING, "done", None, "purged"),
        (Requeue((RowRef("in", 99),)), "refused", "NOT_FOUND", "dead"),
    ],
)
def test_progress_that_is_none_stops_nobody(
    store: Path, progress: str, verb: Verb, status: str, code: str | None, rows: str
) -> None:
    """A foreign writer may leave anything; neither doing it nor refusing it may fail of that."""
    leave(store, verb)
    query(store, "UPDATE control SET result = ?", progress)
    result = decide(store, verb, control_id="c1")

    assert (result.status, result.code) == (status, code)
    assert query(store, "SELECT DISTINCT status FROM inbox") == [(rows,)]
