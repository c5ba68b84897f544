"""A SIGKILL at every border of an album's life: it still is one turn of all its parts, answered once."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor
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


def run(folder: Path, point: str, album_s: float) -> CompletedProcess[str]:
    return run_forked("tests.crash.album_child", str(folder), point, str(album_s), timeout=40)


def check_kill(folder: Path, point: str, album_s: float) -> None:
    """Kill at a point, run again to the end: one album, whole, and one answer.

    A bot that was killed while it read the parts has to be up again within `album_s` of the first one.
    """
    folder.mkdir()
    killed = run(folder, point, album_s)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    ended = run(folder, "-", album_s)
    assert ended.returncode == 0, ended.stderr
    turns = [json.loads(line) for line in (folder / "turns").read_text().splitlines()]
    # A turn whose end was not on disk runs again, with the same parts.
    runs = 2 if point.startswith("done.before_commit") else 1
    assert turns == [list(CAPTIONS)] * runs, point
    assert [line.split(" ", 1)[1] for line in (folder / "sink").read_text().splitlines()] == ["3 parts"]
    with apsw.Connection(str(folder / "bot.db"), flags=apsw.SQLITE_OPEN_READONLY) as database:
        rows = database.execute("SELECT status, claim, failures, blames FROM inbox ORDER BY seq").fetchall()
        assert rows == [("done", runs, 0, 0)] * 3, point


@pytest.mark.parametrize("point", ["accept.after_commit:2:kill", "done.before_commit:1:kill"])
def test_a_kill_at_a_border_leaves_one_album(tmp_path: Path, point: str) -> None:
    check_kill(tmp_path / "a", point, 4)


@pytest.mark.long
def test_a_kill_at_any_border_leaves_one_album(tmp_path: Path) -> None:
    """All side by side: they wait most of the time, long enough for a slow machine to be up again."""
    with ThreadPoolExecutor(len(POINTS)) as pool:
        kills = [
            pool.submit(check_kill, tmp_path / str(number), point, 15 if point.startswith("accept") else 1)
            for number, point in enumerate(POINTS)
        ]
        for kill in kills:
            kill.result()
