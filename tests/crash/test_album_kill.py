"""A SIGKILL at every border of an album's life: it still is one turn of all its parts, answered once."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from subprocess import CompletedProcess

import apsw
import pytest

from tests.kits.albums import CAPTIONS
from tests.kits.forked import run_forked

BORDERS = ("before_commit", "after_commit", "before_wake")
POINTS = [
    *(f"accept.{border}:{number}:kill" for number in (1, 2, 3) for border in BORDERS),
    *(f"{kind}.{border}:1:kill" for kind in ("done", "send-result") for border in BORDERS),
]


QUICK = ("accept.after_commit:2:kill", "done.before_commit:1:kill")


def run(folder: Path, point: str) -> CompletedProcess[str]:
    return run_forked("tests.crash.album_child", str(folder), point, timeout=40)


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=() if point in QUICK else pytest.mark.long) for point in POINTS]
)
def test_a_kill_at_a_border_leaves_one_album(tmp_path: Path, point: str) -> None:
    killed = run(tmp_path, point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ended = run(tmp_path, "-")
    assert ended.returncode == 0, ended.stderr
    turns = [json.loads(line) for line in (tmp_path / "turns").read_text().splitlines()]
    # A turn whose end was not on disk runs again, with the same parts.
    runs = 2 if point.startswith("done.before_commit") else 1
    assert turns == [list(CAPTIONS)] * runs, point
    assert [line.split(" ", 1)[1] for line in (tmp_path / "sink").read_text().splitlines()] == ["3 parts"]
    with apsw.Connection(str(tmp_path / "bot.db"), flags=apsw.SQLITE_OPEN_READONLY) as database:
        rows = database.execute("SELECT status, claim, failures, blames FROM inbox ORDER BY seq").fetchall()
        assert rows == [("done", runs, 0, 0)] * 3, point
