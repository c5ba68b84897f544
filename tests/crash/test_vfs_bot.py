"""A whole bot over a disk that fails at any sync or write of its log: it goes on, or dies and starts again.

A process each; every single call of a store in one process: `test_any_fault.py`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import apsw
import pytest

from tests.crash.vfs_bot import ADDRESSES, SHARDS, TEXTS, lines
from tests.kits.forked import run_forked
from tests.kits.store_checks import check_store

MOST_COMMITS = 40
LONG = pytest.mark.long


def run_bots(*arguments: str) -> dict[str, int]:
    """What `vfs_bot` says of each run."""
    ended = run_forked("tests.crash.vfs_bot", *arguments, timeout=110)
    assert ended.returncode == 0, ended.stderr
    return {name: int(said) for name, said in (line.split() for line in ended.stdout.splitlines())}


def answers(folder: Path, end: str) -> set[str]:
    return {f"in:line:{line['id']}" for line in lines(folder / "answers.jsonl") if line["end"] == end}


def check_answers(folder: Path) -> None:
    """What was answered is there, what was refused is not, nothing went out twice."""
    stored = check_store(folder / "bot.db", shard_count=SHARDS)
    assert answers(folder, "stored") <= stored
    assert not answers(folder, "refused") & stored
    assert set(Counter(line["id"] for line in lines(folder / "sink.jsonl")).values()) <= {1}


def check_end(folder: Path) -> None:
    """As above, and all that was stored has been answered, in order."""
    check_answers(folder)
    refused = answers(folder, "refused")
    sink = lines(folder / "sink.jsonl")
    pokes = 0
    for address in ADDRESSES:
        stored = [text for text in TEXTS if f"in:line:{address}:{text}" not in refused]
        sent = [line["text"] for line in sink if line["key"] == f"line:{address}"]
        assert sent == [f"{turn}: {text}" for turn, text in enumerate(stored, 1)]
        pokes += "poke" in stored
    poked = [line["text"] for line in sink if line["key"] == "line:poked"]
    assert [int(text.partition(":")[0]) for text in poked] == list(range(1, pokes + 1))
    assert len({text.partition(":")[2] for text in poked}) == pokes

    database = apsw.Connection(str(folder / "bot.db"))
    try:
        assert {status for (status,) in database.execute("SELECT status FROM inbox")} == {"done"}
        assert {status for (status,) in database.execute("SELECT status FROM outbox")} == {"sent"}
        assert {crashes for (crashes,) in database.execute("SELECT crashes FROM inbox")} == {0}
        ((commits,),) = database.execute("SELECT commit_seq FROM store_commit").fetchall()
        assert isinstance(commits, int)
        assert commits <= MOST_COMMITS
    finally:
        database.close()


CASES = [
    ("sync", "io", "1"),
    ("sync", "full", "1"),
    ("write", "io", "29"),
    ("write", "full", "37"),
    pytest.param("write", "io", "6", marks=LONG),
    pytest.param("write", "full", "13", marks=LONG),
]


@pytest.mark.parametrize(("operation", "fault", "stride"), CASES)
def test_a_bot_goes_on_after_its_log_failed_once(
    tmp_path: Path, operation: str, fault: str, stride: str
) -> None:
    runs = run_bots(str(tmp_path), operation, fault, "go-on", "1", stride)

    assert len(runs) > 5
    assert set(runs.values()) == {0, 1}
    for folder in tmp_path.iterdir():
        check_end(folder)


@pytest.mark.parametrize(("operation", "fault", "stride"), CASES)
def test_a_bot_killed_after_its_log_failed_is_whole_when_it_starts_again(
    tmp_path: Path, operation: str, fault: str, stride: str
) -> None:
    """What a failed sync left in the log may be there after all: nobody was told either way."""
    runs = run_bots(str(tmp_path), operation, fault, "die", "1", stride)

    assert Counter(runs.values())[2] > 5
    for folder in tmp_path.iterdir():
        check_answers(folder)
    again = run_bots(str(tmp_path), "restart")
    assert again.keys() == runs.keys()
    assert set(again.values()) == {0}
    for folder in tmp_path.iterdir():
        check_end(folder)
