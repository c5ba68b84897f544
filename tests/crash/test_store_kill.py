"""SIGKILL at every border of a commit, at every write of the log, and at any moment of a flood."""

from __future__ import annotations

import signal
from contextlib import AbstractContextManager
from pathlib import Path

import apsw
import pytest

from tests.kits.forked import Running, start_forked
from tests.kits.store_checks import check_store


def start_child(path: Path, mode: str, plan: str, at: str = "") -> AbstractContextManager[Running]:
    return start_forked("tests.crash.store_child", str(path), mode, plan, at)


def run_child(path: Path, mode: str, at: str) -> list[list[str]]:
    """What a child that dies at a point has said, word by word."""
    with start_child(path, mode, "steps", at) as child:
        out, err = child.communicate(timeout=60)
        assert child.returncode == -signal.SIGKILL, err
    return [words for line in out.splitlines() if (words := line.split())[0] in {"try", "did"}]


def history_rows(path: Path) -> int:
    database = apsw.Connection(str(path))
    ((rows,),) = database.execute("SELECT count(*) FROM history").fetchall()
    database.close()
    assert isinstance(rows, int)
    return rows


def rows_said(said: list[list[str]]) -> tuple[int, int]:
    """History rows of the answered steps, and of the step that was under way."""
    rows = {words[1]: int(words[2]) for words in said if words[0] == "try"}
    answered = {words[1] for words in said if words[0] == "did"}
    under_way = rows.keys() - answered
    assert len(under_way) == 1
    return sum(rows[name] for name in answered), rows[under_way.pop()]


@pytest.mark.parametrize("mode", ["thread", pytest.param("inline", marks=pytest.mark.long)])
@pytest.mark.parametrize("border", ["before_commit", "after_commit", "before_wake"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("accept", "accept-1"),
        ("done", "done-1"),
        ("send-start", "done-1"),
        ("send-result", "sent-1"),
        ("retry", "fail-1"),
        ("dead", "dead-1"),
        ("requeue", "requeue-1"),
        ("emit", "done-1"),
    ],
)
def test_killed_at_a_border_leaves_the_commit_whole_or_not_at_all(
    tmp_path: Path, kind: str, name: str, border: str, mode: str
) -> None:
    path = tmp_path / "bot.db"
    said = run_child(path, mode, f"{kind}.{border}:2:kill")
    answered, under_way = rows_said(said)

    assert said[-1][:2] == ["try", name]
    check_store(path)
    assert history_rows(path) == answered + (0 if border == "before_commit" else under_way)


@pytest.mark.parametrize(
    "nths",
    [(1, 4, 9), pytest.param(tuple(range(1, 70)), marks=pytest.mark.long)],
)
@pytest.mark.parametrize("operation", ["write", "sync"])
def test_killed_at_any_write_of_the_log_leaves_what_was_answered(
    tmp_path: Path, operation: str, nths: tuple[int, ...]
) -> None:
    for nth in nths:
        path = tmp_path / f"{nth}.db"
        at = nth if operation == "write" else (nth - 1) % 24 + 1
        answered, under_way = rows_said(run_child(path, "inline", f"{operation}:{at}"))

        check_store(path)
        assert history_rows(path) in {answered, answered + under_way}


@pytest.mark.parametrize("mode", ["thread", "inline"])
@pytest.mark.parametrize(
    "lines",
    [
        (1, 40, 300),
        pytest.param(
            (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584, 100, 200, 300, 400, 500),
            marks=pytest.mark.long,
        ),
    ],
)
def test_killed_at_any_moment_nothing_answered_is_missing(
    tmp_path: Path, mode: str, lines: tuple[int, ...]
) -> None:
    path = tmp_path / "bot.db"
    answered: set[str] = set()
    for count in lines:
        with start_child(path, mode, "flood") as child:
            said = 0
            while said < count:
                words = child.stdout.readline().split()
                if words[0] == "did":
                    answered.add(words[1])
                    said += 1
            child.kill()
            rest, _ = child.communicate(timeout=30)
        # A line may be torn by the kill: what was said whole counts.
        whole = rest[: rest.rfind("\n") + 1].splitlines()
        answered |= {line.split()[1] for line in whole if line.startswith("did ")}

        assert answered <= check_store(path)
