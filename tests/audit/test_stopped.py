"""Ctrl-C at an audit: it ends with one line and exit code 2, and nothing half written is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kits.audited import make_chats

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from shardline.storage.audit.checks.registry import pick_checks
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.run import Stopped, run_audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

# Whoever runs the tests in the background may have told its children to ignore a Ctrl-C.
PROGRAM = """
import importlib, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
module, owner, name = sys.argv.pop(1).split(":")
place = importlib.import_module("shardline.storage.audit." + module)
place = getattr(place, owner) if owner else place
real, sent = getattr(place, name), []
def struck(*args, **named):
    if not sent:
        sent.append(1)
        os.kill(os.getpid(), signal.SIGINT)
    return real(*args, **named)
setattr(place, name, struck)
from shardline.__main__ import main
main()
"""
QUICK = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


@pytest.mark.parametrize("turns", [0, 2, 4])
def test_a_run_that_is_asked_to_stop_leaves_nothing(spark: SparkSession, tmp_path: Path, turns: int) -> None:
    """Before it has counted, while it counts, and while checks run."""
    store, exports, out = tmp_path / "a.db", tmp_path / "x", tmp_path / "out"
    make_chats(store, chats=1)
    export_store(store, exports)
    asked = 0

    def is_asked_to_stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > turns

    with pytest.raises(Stopped):
        run_audit(
            Exported(spark, exports),
            out,
            pick_checks(["hash_chain", "stuck_pending"]),
            measures=(),
            is_asked_to_stop=is_asked_to_stop,
        )

    assert list(out.iterdir()) == []
    # Spark is as it was.
    assert spark.range(3).count() == 3


@pytest.mark.long
@pytest.mark.parametrize(
    "moment",
    [
        "export:_Export:_write",
        "session::open_session",
        "exported:Exported:read_rows",
        "run:_Run:check",
        "run:_Run:measure",
    ],
)
def test_ctrl_c_ends_an_audit_in_one_line(tmp_path: Path, moment: str) -> None:
    store, out, own = tmp_path / "a.db", tmp_path / "out", tmp_path / "own"
    make_chats(store, chats=2)
    own.mkdir()
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM,
            moment,
            "audit",
            str(store),
            "--out",
            str(out),
            "--master",
            "local[1]",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        env={**os.environ, **QUICK, "TMPDIR": str(own)},
    )
    said = [line for line in ended.stderr.splitlines() if "JAVA_TOOL_OPTIONS" not in line]

    assert ended.returncode == 2, said
    assert said[-1].startswith("shardline: "), said
    assert said[-1].endswith("ended by a signal; nothing of it was kept")
    assert not [line for line in said if "Traceback" in line or "ERROR" in line or "Exception" in line], said
    assert len(said) <= 3, said
    assert not out.exists() or list(out.iterdir()) == []
    assert list(own.iterdir()) == [], "what it copied and exported is gone"


@pytest.mark.long
def test_ctrl_c_at_an_export_leaves_no_files(tmp_path: Path) -> None:
    store, exports = tmp_path / "a.db", tmp_path / "x"
    make_chats(store, chats=2)
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM,
            "export:_Export:_write",
            "audit",
            "export",
            str(store),
            "--to",
            str(exports),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert not [path for path in exports.rglob("*") if path.is_file()]
    assert signal.SIGINT.name not in ended.stderr


# A worker of Python speaks through this stream of Java's, and one that is cut off may do so at any time.
LATE = """
from shardline.storage.audit.session import hush, open_session
spark = open_session("local[1]", small=True)
err = spark.sparkContext._jvm.System.err
err.println("while it runs")
hush(spark)
spark.stop()
err.println("Traceback of a worker that was cut off")
"""


@pytest.mark.long
def test_a_worker_that_is_cut_off_when_spark_ends_is_not_heard() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LATE],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, **QUICK},
    )

    assert ended.returncode == 0, ended.stderr
    assert "while it runs" in ended.stderr
    assert "Traceback" not in ended.stderr
