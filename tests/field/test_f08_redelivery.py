"""Field entries 8, 9 and 33: a platform that repeats everything at each start, and a process that is killed.

Entry 32 (kill -9 at random points of a run, each reply once) is `tests/crash/test_demo_kill.py`.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
from collections import Counter
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path

import apsw
import pytest

from tests.kits.forked import Running, start_forked

BOT = Path(__file__).with_name("redelivered_bot.py")
UPDATES, LIMIT_S = 20, 60


def start(folder: Path, **environment: str) -> AbstractContextManager[Running]:
    return start_forked(BOT, folder=folder, environment={"UPDATES": str(UPDATES), **environment})


def until(process: Running, word: str) -> list[str]:
    said: list[str] = []
    while not said or not said[-1].startswith(word):
        line = process.stdout.readline()
        assert line, (said, process.communicate(30))
        said.append(line.strip())
    return said


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("kills", [5, pytest.param(30, marks=pytest.mark.long)])
def test_updates_that_come_again_at_each_start_are_handled_once_and_answered_once(
    tmp_path: Path, kills: int
) -> None:
    """Entry 8; the platform ignores every acknowledgement, as in entry 9."""
    chance = random.Random(kills)
    for _ in range(kills):
        with start(tmp_path, SLOW_S="0.02") as running:
            until(running, "reading")
            with suppress(subprocess.TimeoutExpired):
                running.wait(chance.uniform(0, 0.25))
    with start(tmp_path) as ended:
        out, err = ended.communicate(timeout=60)

    assert ended.returncode == 0, err
    assert out.splitlines()[-1] == "drained"
    assert Counter(lines(tmp_path / "sink")) == {f"re {number}": 1 for number in range(1, UPDATES + 1)}
    database = apsw.Connection(str(tmp_path / "bot.db"))
    assert database.pragma("integrity_check") == "ok"
    assert database.execute("SELECT status, count(*) FROM inbox GROUP BY status").fetchall() == [
        ("done", UPDATES)
    ]
    history = database.execute(
        "SELECT count(*) FROM history WHERE kind = 'in' AND event LIKE 'done%'"
    ).fetchall()
    database.close()
    assert history == [(UPDATES,)]


def test_a_message_under_way_at_a_kill_runs_again_at_once_and_its_send_is_not_repeated(
    tmp_path: Path,
) -> None:
    """Entry 33: the channel cannot be asked, so the send that was flying waits for a person.

    "At once" is less than the entry's second: none goes by for the bot until its turn runs. On the wall it takes what
    the machine takes.
    """
    with start(tmp_path, SLOW_S="600", UPDATES="1", STUCK_SEND="0") as running:
        until(running, "turn 1")
    with start(tmp_path, UPDATES="1", STUCK_SEND="1", ASK="no", CLOCK="still") as running:
        late = threading.Timer(LIMIT_S, partial(running.send_signal, signal.SIGKILL))
        late.daemon = True
        late.start()
        said = until(running, "turn 1")
        begun_s = next(float(line.split()[1]) for line in said if line.startswith("opened"))
        ran_s = float(said[-1].split()[2])
        assert ran_s - begun_s < 5, "nothing of the run before is waited for"
        until(running, "sending")
        late.cancel()
    with start(tmp_path, UPDATES="1", ASK="no") as ended:
        out, err = ended.communicate(timeout=60)

    assert ended.returncode == 0, err
    assert "sending" not in out
    assert lines(tmp_path / "sink") == []
    log = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    (recovered,) = [event for event in log if event["event"] == "runtime.recovered"]
    assert (recovered["claimed"], recovered["flying"]) == (0, 1)
    (waiting,) = [event for event in log if event["event"] == "outbox.found_uncertain"]
    assert (waiting["uncertain"], waiting["look"]) == (1, "shardline outbox list state=uncertain")
