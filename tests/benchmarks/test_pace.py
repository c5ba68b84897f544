"""A slower processor gets a slower disk, so that a ratio to raw SQLite says how good the code is."""

from __future__ import annotations

import pytest

from benchmarks.pace import REFERENCE_PER_S, sync_us_for
from benchmarks.shim import SHIM_NAME, running_sync_us


def test_the_machine_of_the_bars_gets_its_own_sync() -> None:
    assert sync_us_for(REFERENCE_PER_S) == 1_000
    assert sync_us_for(REFERENCE_PER_S / 5) == 5_000
    assert sync_us_for(REFERENCE_PER_S * 2) == 500


def test_the_sync_of_a_program_under_the_library_is_read_from_its_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FSYNC_US", "4711")
    monkeypatch.setenv("LD_PRELOAD", "/lib/other.so")
    assert running_sync_us() is None
    monkeypatch.setenv("LD_PRELOAD", f"/lib/other.so:/cache/{SHIM_NAME}0.so")
    assert running_sync_us() == 4711
