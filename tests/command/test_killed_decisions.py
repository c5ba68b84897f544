"""Decisions over many rows by commands that own the store themselves and are killed: each row is decided once."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from shardline.runtime.control.verbs import Requeue, RowRef
from tests.kits.controlled import decide, make_dead, query, run_bot
from tests.kits.forked import run_forked, start_forked
from tests.kits.store_checks import check_store

ROWS = 300


def kill_soon(words: Sequence[str], after_s: float) -> None:
    """Run the command and kill it, if it has not ended by then."""
    with start_forked("shardline", *words) as command:
        killer = threading.Timer(after_s, command.kill)
        killer.start()
        killer.join()
        command.wait(60)


def kill_between(words: Sequence[str], path: Path, rows: int) -> None:
    """Run the command and kill it when it has decided so many rows, however long that takes."""
    database = apsw.Connection(str(path))
    database.set_busy_timeout(10_000)
    try:
        goal = decided(database) + rows
        with start_forked("shardline", *words) as command:
            for _ in range(10_000_000):
                if command.poll() is not None or decided(database) >= goal:
                    break
            command.kill()
            command.wait(60)
    finally:
        database.close()


def decided(database: apsw.Connection) -> int:
    return int(database.execute("SELECT count(*) FROM history WHERE event = 'requeue'").get)


@pytest.mark.long
def test_a_requeue_of_all_that_is_killed_and_begun_again_requeues_each_once(tmp_path: Path) -> None:
    path = tmp_path / "bot.db"
    make_dead(path, ROWS)
    words = ("dlq", "requeue", "own_code=x.first", "--store", str(path), "--yes", "--limit", "1000", "--json")
    dice = random.Random(3)
    left: list[int] = []
    for number in range(12):
        if number % 2:
            kill_soon(words, dice.uniform(0.1, 0.9))
        else:
            kill_between(words, path, dice.randint(1, 40))
        [(dead,)] = query(path, "SELECT count(*) FROM inbox WHERE status = 'dead'")
        assert isinstance(dead, int)
        left.append(dead)
    ended = run_forked("shardline", *words, timeout=60)
    assert ended.returncode in {0, 1}, ended.stderr

    assert any(0 < dead < ROWS for dead in left), f"no kill fell between two rows: {left}"
    assert query(path, "SELECT DISTINCT status, generation FROM inbox") == [("queued", 1)]
    assert query(path, "SELECT count(*), count(DISTINCT identity) FROM history WHERE event = 'requeue'") == [
        (ROWS, ROWS)
    ]
    # One that was cut off is carried on by the next owner, before any later one: it finds nothing left to do.
    assert decide(path, Requeue((RowRef("in", 1),))).code == "INVALID_TRANSITION"
    assert query(path, "SELECT count(*) FROM control WHERE status = 'waiting'") == [(0,)]
    run_bot(path)
    assert query(path, "SELECT DISTINCT status, generation FROM inbox") == [("done", 1)]
    assert query(path, "SELECT count(*), count(DISTINCT inbox_id) FROM outbox") == [(ROWS, ROWS)]
    check_store(path)
