"""Fifteen checks over an export, beside a plain scan of the same export in the same session.

The goal is a minute for fifteen million rows on two cores, and seconds are a machine's: how many scans of all columns
the checks cost is told beside them. Both sides read the same files and take turns. What Spark's tasks had of the
processor is taken from its own log: other programs do not move that.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import attrs
import structlog

from benchmarks.audited_store import make_store
from shardline.storage.audit.checks.registry import ALL_CHECKS
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported
from shardline.storage.audit.run import run_audit
from shardline.storage.audit.session import open_session
from shardline.storage.audit.tables import TABLES

OFF: Final = ("inbox_unanswered", "dead_letter_growth", "log_gaps", "answer_without_message")
"""Left out: fifteen are timed."""
MOST_S: Final = 60
"""Of fifteen million rows."""
ROWS: Final = 15_000_000
_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"


@attrs.frozen
class Span:
    """When one side ran, in seconds since 1970."""

    begun: float
    ended: float

    @property
    def wall_s(self) -> float:
        """How long."""
        return self.ended - self.begun

    def cpu_s(self, tasks: Iterable[tuple[float, float]]) -> float:
        """What the tasks that ended in it had of the processor."""
        return sum(cpu_s for ended, cpu_s in tasks if self.begun <= ended <= self.ended)


@attrs.frozen(kw_only=True)
class Suite:
    """By round. Not among them: the first scan, and the first run of the checks, which load and compile."""

    cold: Span | None
    checks: list[Span]
    scans: list[Span]

    @property
    def ratios(self) -> list[float]:
        """Scans that the checks take as long as, by round."""
        return [checks.wall_s / scan.wall_s for checks, scan in zip(self.checks, self.scans, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the rounds' own."""
        return statistics.median(self.ratios)

    def cpu_ratio(self, tasks: Iterable[tuple[float, float]]) -> float:
        """The same of the processor time of tasks."""
        every = list(tasks)
        return statistics.median(
            checks.cpu_s(every) / scan.cpu_s(every)
            for checks, scan in zip(self.checks, self.scans, strict=True)
        )


@contextmanager
def logging_tasks(folder: Path) -> Generator[None]:
    """A session that is opened in the block writes a log of its tasks."""
    before = os.environ.get(_ARGUMENTS)
    settings = {"enabled": "true", "dir": folder.as_uri(), "compress": "false", "rolling.enabled": "false"}
    said = " ".join(f"--conf spark.eventLog.{name}={value}" for name, value in settings.items())
    os.environ[_ARGUMENTS] = f"{said} pyspark-shell"
    try:
        yield
    finally:
        del os.environ[_ARGUMENTS]
        if before is not None:
            os.environ[_ARGUMENTS] = before


def read_tasks(folder: Path) -> list[tuple[float, float]]:
    """Of each task of a session that was stopped, when it ended and its seconds of the processor."""
    [path] = folder.iterdir()
    tasks: list[tuple[float, float]] = []
    for line in path.read_text().splitlines():
        event = cast("Mapping[str, object]", json.loads(line))
        if event["Event"] == "SparkListenerTaskEnd":
            info = cast("Mapping[str, int]", event["Task Info"])
            metrics = cast("Mapping[str, int]", event["Task Metrics"])
            tasks.append((info["Finish Time"] / 1e3, metrics["Executor CPU Time"] / 1e9))
    return tasks


def measure_suite(exported: Exported, rows: int, rounds: int, *, is_warm: bool = True) -> Suite:
    """Time both sides.

    Args:
        exported: An export without faults.
        rows: How many both sides must read.
        rounds: Of each side.
        is_warm: The checks are run once before.
    """
    _scan(exported)
    cold = _timed(lambda: _check(exported, rows)) if is_warm else None
    checks: list[Span] = []
    scans: list[Span] = []
    for number in range(rounds):
        sides: list[tuple[list[Span], Callable[[], None]]] = [
            (checks, lambda: _check(exported, rows)),
            (scans, lambda: _scan(exported)),
        ]
        for times, call in sides[:: 1 if number % 2 else -1]:
            times.append(_timed(call))
    return Suite(cold=cold, checks=checks, scans=scans)


def show_suite(suite: Suite, rows: int, tasks: Iterable[tuple[float, float]]) -> bool:
    """Print; whether the bar is met."""
    checks_s = statistics.median(one.wall_s for one in suite.checks)
    scan_s = statistics.median(one.wall_s for one in suite.scans)
    cold_s = 0.0 if suite.cold is None else suite.cold.wall_s
    whole_s = checks_s / rows * ROWS
    is_met = whole_s <= MOST_S
    print(
        f"fifteen checks   {whole_s:.1f} s for {ROWS:,} rows at the pace of these {rows:,}, bar {MOST_S}"
        f"  {'met' if is_met else 'MISSED'}\n"
        f"                 {cold_s:.1f} s at first, then {checks_s:.1f} s;"
        f" as long as {suite.ratio:.1f} full scans ({min(suite.ratios):.1f}-{max(suite.ratios):.1f});"
        f" a scan {scan_s:.2f} s, {rows / scan_s / 1_000_000:.2f} million rows a second; in processor time of tasks"
        f" {suite.cpu_ratio(tasks):.1f} scans",
        flush=True,
    )
    return is_met


def _scan(exported: Exported) -> None:
    """All columns of all tables, to nowhere."""
    for name in TABLES:
        exported.table(name).write.format("noop").mode("overwrite").save()


def _check(exported: Exported, rows: int) -> None:
    """As the command runs them: rows counted against the manifests, findings written."""
    checks = [check for name, check in ALL_CHECKS.items() if name not in OFF]
    with tempfile.TemporaryDirectory() as out:
        summary = run_audit(exported, Path(out), checks, measures=())
    assert summary.is_complete
    assert summary.found() == 0
    assert sum(summary.rows[name] for name in ("inbox", "outbox", "history")) == rows


def _timed(call: Callable[[], None]) -> Span:
    begun = time.time()
    call()
    return Span(begun, time.time())


def main() -> None:
    """One round, cold, of so many messages; how many scans of processor time the checks cost, as JSON."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as log:
        made = make_store(Path(work, "a.db"), int(sys.argv[1]))
        export_store(Path(work, "a.db"), Path(work, "x"))
        with logging_tasks(Path(log)):
            spark = open_session("local[2]")
        suite = measure_suite(Exported(spark, Path(work, "x")), made.rows, rounds=1, is_warm=False)
        spark.stop()
        print(json.dumps({"rows": made.rows, "scans": suite.cpu_ratio(read_tasks(Path(log)))}))


if __name__ == "__main__":
    main()
