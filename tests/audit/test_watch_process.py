"""`shardline audit watch` and `verify-chain` as people run them: processes that are stopped, killed and begun again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.kits.audited import Tampered, add_live_faults, make_chats, spoil_chains
from tests.kits.operated import operate

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from shardline.storage.audit.report import read_rows

pytestmark = [pytest.mark.spark, pytest.mark.long]

# Whoever runs the tests in the background may have told its children to ignore a Ctrl-C.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from shardline.__main__ import main
main()
"""
# For so few rows making good code takes longer than running it.
QUICK = {**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
SAID = re.compile(r"batch (\d+): ([\d,]+) new rows, (\d+) findings")


class Watched:
    """A watch in a process of its own, and what it told."""

    def __init__(self, process: subprocess.Popen[str], said: IO[str]) -> None:
        self.process = process
        self.batches: dict[int, tuple[int, int]] = {}
        """By number: rows and findings."""
        self.last_words: list[str] = []
        """What it told while it ended."""
        self._said = said

    def wait_for_batch(self) -> tuple[int, int]:
        """The next batch that it tells."""
        for line in self._said:
            told = SAID.match(line)
            if told is not None:
                self.batches[int(told[1])] = rows, findings = int(told[2].replace(",", "")), int(told[3])
                return rows, findings
        raise AssertionError(f"the watch has ended: {self.process.wait(20)}")

    def end(self, how: signal.Signals) -> int:
        """End it; its exit code, when it and its Spark are gone."""
        self.process.send_signal(how)
        for line in self._said:
            self.last_words.append(line)
            told = SAID.match(line)
            if told is not None:
                self.batches[int(told[1])] = int(told[2].replace(",", "")), int(told[3])
        return self.process.wait(300)


@contextmanager
def watching(*stores: Path, out: Path) -> Generator[Watched]:
    """A watch, killed at the end if it is still there."""
    command = [
        "audit",
        "watch",
        *map(str, stores),
        "--out",
        str(out),
        "--every",
        "0.3",
        "--master",
        "local[1]",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=QUICK,
    )
    assert process.stderr is not None
    with process.stderr:
        try:
            yield Watched(process, process.stderr)
        finally:
            process.kill()
            process.wait(20)


def found_in(out: Path) -> list[tuple[object, ...]]:
    return [
        (row["store"], row["check"], row["ref_id"])
        for folder in sorted((out / "finding").iterdir())
        for row in read_rows(folder)
    ]


def test_a_killed_watch_goes_on_without_loss_or_repeat(tmp_path: Path) -> None:
    store, out = tmp_path / "a.db", tmp_path / "out"
    make_chats(store, chats=2)
    told: dict[int, tuple[int, int]] = {}
    with watching(store, out=out) as first:
        before = first.wait_for_batch()
        wanted = add_live_faults(store)
        while not first.wait_for_batch()[1]:
            pass
        # Told, and most likely not yet noted as done: it may be told again, it may not be there twice.
        killed = first.end(signal.SIGKILL)
    told |= first.batches
    make_chats(store, chats=1, first=2)
    with watching(store, out=out) as second:
        while second.wait_for_batch()[1]:
            pass
        stopped = second.end(signal.SIGINT)
    told |= second.batches

    assert before[0] > 0
    assert before[1] == 0
    assert killed == -signal.SIGKILL
    assert not [line for line in second.last_words if "Traceback" in line or "ERROR" in line]
    assert stopped == int(any(findings for _, findings in second.batches.values()))
    found = found_in(out)
    assert set(found) == wanted
    assert len(found) == len(wanted)
    assert sorted(told) == list(range(len(told)))
    with Tampered(store, relink=False) as look:
        assert sum(rows for rows, _ in told.values()) == look.value("SELECT count(*) FROM history")


def test_the_chains_of_an_export_are_told_by_the_exit_code(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    make_chats(store, chats=12)
    ends: list[tuple[int, str]] = []
    for name in ("whole", "spoilt"):
        if name == "spoilt":
            spoil_chains(store)
        made = operate("audit", "export", store, "--to", tmp_path / name)
        assert made.exit_code == 0, made.stderr
        ended = subprocess.run(
            [
                sys.executable,
                "-m",
                "shardline",
                "audit",
                "verify-chain",
                str(tmp_path / name),
                "--master",
                "local[1]",
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
            env=QUICK,
        )
        ends.append((ended.returncode, ended.stdout + ended.stderr))

    assert [code for code, _ in ends] == [0, 1], ends
    assert "the chains are whole" in ends[0][1]
    assert "the chains are not whole" in ends[1][1]
    assert "hash_chain" in ends[1][1]
