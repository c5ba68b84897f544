import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.shim import Unavailable, build_shim, shim_environment

COMMITS = """
import sys, time, apsw
database = apsw.Connection(sys.argv[1])
database.pragma("journal_mode", "wal")
database.pragma("synchronous", sys.argv[2])
database.execute("create table t (x)")
start_s = time.monotonic()
for n in range(10):
    database.execute("insert into t values (?)", (n,))
print(time.monotonic() - start_s)
"""
BAD_DESCRIPTOR = """
import os
try:
    os.fsync(987654)
except OSError as error:
    print(error.errno == __import__("errno").EBADF)
"""


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    built = build_shim(tmp_path / "cache")
    if isinstance(built, Unavailable):
        pytest.skip(built.reason)
    return built


def child(program: str, *arguments: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_each_full_commit_waits_for_one_sync(shim: Path, tmp_path: Path) -> None:
    slow = shim_environment(shim, 20_000, os.environ)
    took_s = float(child(COMMITS, str(tmp_path / "full.db"), "full", environment=slow))

    assert took_s >= 10 * 0.020


def test_normal_commits_do_not_sync(shim: Path, tmp_path: Path) -> None:
    slow = shim_environment(shim, 200_000, os.environ)
    took_s = float(child(COMMITS, str(tmp_path / "normal.db"), "normal", environment=slow))

    assert took_s < 10 * 0.2


def test_a_bad_descriptor_is_still_refused(shim: Path) -> None:
    assert child(BAD_DESCRIPTOR, environment=shim_environment(shim, 0, os.environ)) == "True"


def test_the_library_is_built_once(shim: Path) -> None:
    built_at_ns = shim.stat().st_mtime_ns

    assert build_shim(shim.parent) == shim
    assert shim.stat().st_mtime_ns == built_at_ns
    assert [path.name for path in shim.parent.iterdir()] == [shim.name]


def test_a_missing_compiler_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    built = build_shim(tmp_path / "cache")

    assert isinstance(built, Unavailable)
    assert built.reason


def test_the_environment_keeps_other_preloads(shim: Path) -> None:
    once = shim_environment(shim, 5, {"LD_PRELOAD": "/lib/other.so", "TERM": "dumb"})

    assert once == {"LD_PRELOAD": f"{shim}:/lib/other.so", "TERM": "dumb", "FSYNC_US": "5"}
    assert shim_environment(shim, 5, once) == once
