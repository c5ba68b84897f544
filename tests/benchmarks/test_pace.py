"""A slower processor gets a slower disk, so that a ratio to raw SQLite says how good the code is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.pace import REFERENCE_PER_S, sync_us_for
from benchmarks.shim import Unavailable, build_shim, shim_environment

TIMED = """
import os, sys, time
from pathlib import Path
from benchmarks.pace import set_pace, set_sync_us
sync_us = set_pace(Path(sys.argv[1]))
with open(sys.argv[1] + "/file", "w") as file:
    start_s = time.monotonic()
    os.fsync(file.fileno())
    print(time.monotonic() - start_s >= sync_us / 1e6, sync_us > 0)
    set_sync_us(50_000)
    start_s = time.monotonic()
    os.fsync(file.fileno())
    print(time.monotonic() - start_s >= 0.05)
"""


def test_the_machine_of_the_bars_gets_its_own_sync() -> None:
    assert sync_us_for(REFERENCE_PER_S) == 1_000
    assert sync_us_for(REFERENCE_PER_S / 5) == 5_000
    assert sync_us_for(REFERENCE_PER_S * 2) == 500


def test_a_sync_takes_as_long_as_the_pace_says(tmp_path: Path) -> None:
    shim = build_shim(tmp_path / "cache")
    if isinstance(shim, Unavailable):
        pytest.skip(shim.reason)
    command = [sys.executable, "-c", TIMED, str(tmp_path)]
    environment = shim_environment(shim, 1_000, {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True", "True", "True"]
