"""Decisions that are left while their owner is killed are carried out exactly once, whoever comes next."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from shardline.runtime.control.execute import ControlResult
from shardline.runtime.control.verbs import Purge, Requeue, RowRef
from tests.kits.controlled import decide, make_dead, owner_process, query, run_bot

ROUNDS = 25
BATCH_ROUNDS = 12
BATCH_ROWS = 40


@pytest.mark.long
def test_a_requeue_while_the_owner_is_killed_is_carried_out_once(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, ROUNDS)
    dice = random.Random(7)
    results: list[ControlResult] = []

    for number in range(1, ROUNDS + 1):
        with owner_process(path) as owner:
            killer = threading.Timer(dice.uniform(0.0, 0.25), owner.kill)
            killer.start()
            results.append(decide(path, Requeue((RowRef("in", number),))))
            killer.join()
            owner.wait(60)

    assert [result.status for result in results] == ["done"] * ROUNDS
    assert query(path, "SELECT DISTINCT generation FROM inbox") == [(1,)]
    run_bot(path)
    assert query(path, "SELECT DISTINCT status, generation FROM inbox") == [("done", 1)]
    assert query(path, "SELECT count(*) FROM history WHERE event = 'requeue'") == [(ROUNDS,)]
    assert query(path, "SELECT count(*), count(DISTINCT inbox_id) FROM outbox") == [(ROUNDS, ROUNDS)]


@pytest.mark.long
def test_a_requeue_of_many_rows_while_the_owner_is_killed_requeues_and_tells_each_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, BATCH_ROUNDS * BATCH_ROWS)
    dice = random.Random(11)
    cut = 0

    for number in range(BATCH_ROUNDS):
        first = 1 + number * BATCH_ROWS
        rows = tuple(RowRef("in", row) for row in range(first, first + BATCH_ROWS))
        # Half of the kills fall between two rows for sure; the others fall anywhere, with and without a row decided.
        point = f"requeue.before_commit:{dice.randint(2, BATCH_ROWS)}:kill" if number % 2 else ""
        with owner_process(path, point) as owner:
            # The owner looks every 0.2 s and then takes some milliseconds a row.
            killer = threading.Timer(dice.uniform(0.0, 0.4), owner.kill)
            if not point:
                killer.start()
            result = decide(path, Requeue(rows))
            owner.wait(60)
        assert result.status == "done"
        assert result.values == {"requeued": [str(row) for row in rows], "refused": []}
        openings = query(
            path,
            "SELECT count(DISTINCT instance) FROM history WHERE event = 'requeue' AND kind = 'in'"
            " AND identity BETWEEN ? AND ?",
            first,
            first + BATCH_ROWS - 1,
        )
        cut += openings != [(1,)]

    assert cut > 0, "no kill fell between two commits of a decision"
    run_bot(path)
    assert query(path, "SELECT DISTINCT status, generation FROM inbox") == [("done", 1)]
    assert query(path, "SELECT count(*) FROM history WHERE event = 'requeue'") == [
        (BATCH_ROUNDS * BATCH_ROWS,)
    ]


@pytest.mark.long
def test_a_purge_while_the_owner_is_killed_counts_each_row_once(tmp_path: Path) -> None:
    dice = random.Random(13)
    for number in range(6):
        path = tmp_path / f"bot-{number}.db"
        make_dead(path, BATCH_ROWS)
        with owner_process(path) as owner:
            killer = threading.Timer(dice.uniform(0.0, 0.25), owner.kill)
            killer.start()
            result = decide(path, Purge(2**62))
            killer.join()
            owner.wait(60)
        assert result.values == {"purged": BATCH_ROWS, "messages": BATCH_ROWS, "sends": 0}
        assert query(path, "SELECT count(*) FROM history WHERE event = 'purge'") == [(BATCH_ROWS,)]
