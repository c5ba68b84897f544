"""A SIGKILL at every border of an album's life: it still is one turn of all its parts, answered once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tests.kits.albums import CAPTIONS

BORDERS = ("before_commit", "after_commit", "before_wake")
POINTS = [
    *(f"accept.{border}:{number}:kill" for number in (1, 2, 3) for border in BORDERS),
    *(f"{kind}.{border}:1:kill" for kind in ("done", "send-result") for border in BORDERS),
]
QUICK = {"accept.after_commit:2:kill", "done.before_commit:1:kill"}


def run(folder: Path, point: str, album_s: str) -> subprocess.CompletedProcess[str]:
    # Only the parts of one that was killed while it read them have to come together again in time.
    command = [sys.executable, "-m", "tests.crash.album_child", str(folder), point, album_s]
    return subprocess.run(command, capture_output=True, text=True, timeout=40, check=False)


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=() if point in QUICK else pytest.mark.long) for point in POINTS]
)
def test_a_kill_at_a_border_leaves_one_album(tmp_path: Path, point: str) -> None:
    album_s = "4" if point.startswith("accept") else "1"
    killed = run(tmp_path, point, album_s)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ended = run(tmp_path, "-", album_s)

    assert ended.returncode == 0, ended.stderr
    turns = [json.loads(line) for line in (tmp_path / "turns").read_text().splitlines()]
    # A turn whose end was not on disk runs again, with the same parts.
    runs = 2 if point.startswith("done.before_commit") else 1
    assert turns == [list(CAPTIONS)] * runs
    assert [line.split(" ", 1)[1] for line in (tmp_path / "sink").read_text().splitlines()] == ["3 parts"]
    with apsw.Connection(str(tmp_path / "bot.db"), flags=apsw.SQLITE_OPEN_READONLY) as database:
        rows = database.execute("SELECT status, claim, failures, blames FROM inbox ORDER BY seq").fetchall()
    assert rows == [("done", runs, 0, 0)] * 3
