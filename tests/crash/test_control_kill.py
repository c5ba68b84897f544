"""A decision that is left while its owner is killed is carried out exactly once, whoever comes next."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from shardline.runtime.control.execute import ControlResult
from shardline.runtime.control.verbs import Requeue, RowRef
from tests.kits.controlled import decide, make_dead, owner_process, query, run_bot

ROUNDS = 25


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
            owner.wait(10)

    assert [result.status for result in results] == ["done"] * ROUNDS
    assert query(path, "SELECT DISTINCT generation FROM inbox") == [(1,)]
    run_bot(path)
    assert query(path, "SELECT DISTINCT status, generation FROM inbox") == [("done", 1)]
    assert query(path, "SELECT count(*) FROM history WHERE event = 'requeue'") == [(ROUNDS,)]
    assert query(path, "SELECT count(*), count(DISTINCT inbox_id) FROM outbox") == [(ROUNDS, ROUNDS)]
