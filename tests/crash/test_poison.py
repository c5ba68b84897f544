"""One message kills the process, sixty-four beside it do not: only the guilty one dies of it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kits.forked import run_forked

CHILD = "tests.crash.poison_bot"
GOOD_LANES = 64
MOST_STARTS = 16
"""Two crashes make suspects, six halvings leave one of 64, five blames end it; and some room."""


def test_one_poison_among_64_good_lanes_dies_alone(tmp_path: Path) -> None:
    """Field entry 34, among many; alone it is in tests/field."""
    starts = 0
    while True:
        starts += 1
        assert starts <= MOST_STARTS
        ended = run_forked(CHILD, str(tmp_path), timeout=60)
        if ended.returncode != 137:
            break

    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout.splitlines()[-1])
    assert result["dead"] == [["boom", "CRASH_LOOP", 5]]
    assert result["sent"] == sorted([*(f"good {n}" for n in range(GOOD_LANES)), "after"])
    assert starts > 5
