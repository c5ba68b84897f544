"""Killed with turns running: the log counts what the store holds, and a full conversation stays exactly full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from tests.kits.controlled import query
from tests.kits.forked import start_forked

CHILD = "tests.crash.kill_bot"
LIMIT = 30


def run_and_kill(store: Path, turns: int) -> dict[str, object]:
    """Start the bot, wait until it stands still, and kill it; answers with what it said."""
    with start_forked(CHILD, str(store), str(turns), str(LIMIT)) as child:
        line = child.stdout.readline()
    said = cast("dict[str, object]", json.loads(line))
    for told in cast("list[dict[str, object]]", said["recovered"]):
        del told["event"], told["log_level"]
    return said


def running(store: Path) -> list[tuple[int, int, int]]:
    """Crashes and blames of what was at work, and how many are so."""
    rows = query(
        store,
        "SELECT crashes, blames, count(*) FROM inbox WHERE status = 'running' GROUP BY 1, 2 ORDER BY 1, 2",
    )
    return cast("list[tuple[int, int, int]]", rows)


@pytest.mark.parametrize("turns", [1, 2, pytest.param(100, marks=pytest.mark.long)])
def test_what_was_at_work_at_a_kill_is_counted_as_the_store_has_it(tmp_path: Path, turns: int) -> None:
    store, half = tmp_path / "bot.db", max(1, turns // 2)

    assert run_and_kill(store, turns) == {"recovered": [], "taken": LIMIT}
    assert running(store) == [(0, 0, turns)]

    # The first crash: all that was at work goes back, nobody is a suspect; a full conversation is full.
    found = {"claimed": turns, "requeued": turns, "suspects": 0, "crash_looped": 0, "flying": 0}
    said = run_and_kill(store, turns)
    assert said["recovered"] == [found]
    assert said["taken"] in {0, 1}
    # Only one that was alone is blamed.
    assert running(store) == [(1, int(turns == 1), turns)]

    # The second makes all of them suspects: half of them run, the others wait.
    said = run_and_kill(store, turns)
    assert said["recovered"] == [found | {"suspects": turns}]
    assert running(store) == [(2, 2 * (turns == 1), half)]

    # The third: those that waited are suspects still, and have no crash more.
    said = run_and_kill(store, turns)
    assert said["recovered"] == [found | {"claimed": half, "requeued": half, "suspects": turns}]
    open_rows = query(store, "SELECT count(*) FROM inbox WHERE status IN ('queued', 'running')")
    assert open_rows == [(turns + LIMIT,)]
