"""The whole demo under SIGKILL: thirty times at any moment, then to its end."""

import random
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.kits.chat_log import chat_lines
from tests.kits.demo import (
    DEMO,
    answers_in,
    count_of,
    expected_answers,
    integrity,
    run_demo,
    sent_more_than_once,
)
from tests.kits.reaped import reaped

KILLS = 30
SEED = 20
LONGEST_S = 2.0
LINES_PER_S = 6000
"""More than a run can accept in the time it is given; where it came to its end after all, the next one gets more."""
TRIES = 8

pytestmark = pytest.mark.long


def copy_of(store: Path, folder: Path) -> Path:
    """The files as the kill left them, to look into: opening the store itself would repair it."""
    folder.mkdir(exist_ok=True)
    copy = folder / store.name
    for name in (store.name, f"{store.name}-wal"):
        (folder / name).unlink(missing_ok=True)
        if (store.parent / name).exists():
            shutil.copyfile(store.parent / name, folder / name)
    (folder / f"{store.name}-shm").unlink(missing_ok=True)
    return copy


def run_and_kill(folder: Path, *, after_s: float, at_once: bool) -> bool:
    """Start the demo; kill it so long after it began to read, or after it was started. False: it had ended by then."""
    command = [*DEMO, "--input", "log", "--store", "t.db", "--sink", "s.jsonl", "--json"]
    with reaped(
        subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
    ) as running:
        assert running.stderr is not None
        said: list[str] = []
        # Recovery may have something to say first.
        while (
            not at_once
            and not (said and said[-1].startswith("reading "))
            and (line := running.stderr.readline())
        ):
            said.append(line)
        try:
            running.wait(after_s)
        except subprocess.TimeoutExpired:
            running.kill()
        _, rest = running.communicate()

    assert running.returncode in {0, -signal.SIGKILL}, (said, rest)
    assert at_once or said[-1].startswith("reading ")
    return running.returncode != 0


def test_killed_thirty_times_nothing_is_lost_doubled_or_out_of_order(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    store, sink, log = tmp_path / "t.db", tmp_path / "s.jsonl", tmp_path / "log"
    source = chat_lines(conversations=24, seed=SEED)
    written = accepted = recorded = 0

    def append(lines: int) -> None:
        """Let the log have so many lines that were not accepted."""
        nonlocal written
        with log.open("ab") as file:
            while written < accepted + lines:
                file.write(next(source))
                written += 1

    for number in range(KILLS):
        after_s, lines_per_s = chance.uniform(0.05, LONGEST_S), LINES_PER_S
        # Two more kills, while the process starts or recovers, when nothing can be asked of it but to lose nothing.
        if number in {7, 19}:
            append(LINES_PER_S)
            run_and_kill(tmp_path, after_s=chance.uniform(0.3, 0.8), at_once=True)
        before = recorded
        for _ in range(TRIES):
            append(int(after_s * lines_per_s))
            is_killed = run_and_kill(tmp_path, after_s=after_s, at_once=False)
            copy = copy_of(store, tmp_path / "copy")
            assert integrity(copy) == "ok"
            accepted, recorded = count_of(copy, "inbox"), count_of(copy, "history")
            if is_killed and recorded > before:
                break
            if is_killed:
                # A loaded machine may not come to its first commit in a twentieth of a second.
                after_s = 2 * after_s
            else:
                lines_per_s *= 2
        else:
            pytest.fail(f"kill {number} after {after_s:.2f} s")
    ended = run_demo(
        "--input", "log", "--store", "t.db", "--sink", "s.jsonl", "--json", cwd=tmp_path, timeout_s=200
    )

    assert ended.code == 0, ended.err
    assert answers_in(sink) == expected_answers(log)
    assert sent_more_than_once(sink) == []
    assert integrity(store) == "ok"
    summary = ended.summary
    assert summary["accepted"] == summary["handled"] == summary["sent"] == written
    assert (summary["dead"], summary["uncertain"], summary["order_violations"]) == (0, 0, 0)
