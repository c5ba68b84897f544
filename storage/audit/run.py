"""Runs checks over an export and writes what they find.

OUT/finding/check=<name>/*.parquet    one row a finding
OUT/measure/<name>/*.parquet          counts and times
OUT/summary/*.parquet                 one row a check: what it read, what it found
OUT/summary.json                      the same, and what ran; written last
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, cast

import attrs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from ...actors.identifiers import new_uuid7
from .arrow import count_rows
from .checks.base import DEFAULT_LIMITS, Check, Limits, Measure
from .checks.registry import ALL_CHECKS, ALL_MEASURES
from .checks.shared import SHARED, sharing
from .manifest import BadExport
from .schemas import FINDING
from .summary import FILE, TABLE, Outcome, Summary, is_ours, write_summary

_FOLDERS: Final = ("finding", "measure", TABLE)
_AT_ONCE: Final = 3
"""Checks and measures that run side by side."""
# The bridge to the JVM brings no types.
_FAILURES: Final = (PySparkException, cast("type[Exception]", import_module("py4j.protocol").Py4JError))

_TURN_S: Final = 0.1
_MOST_TURNS: Final = 300


class Stopped(Exception):
    """A run was asked to end, and has; what it had written is gone."""


class Audited(Protocol):
    """Tables to run checks over, wherever they are read from."""

    spark: SparkSession
    stores: DataFrame

    @property
    def uuids(self) -> list[str]:
        """Of the stores, sorted."""
        ...

    @property
    def taken_at_us(self) -> int:
        """When the newest copy was made."""
        ...

    def table(self, name: str) -> DataFrame:
        """One of `TABLES`."""
        ...

    def read_rows(self, table: str) -> int:
        """How many rows there are to read; raises where they are not as many as there should be."""
        ...


def run_audit(
    exported: Audited,
    out: Path,
    checks: Sequence[Check],
    *,
    known: Mapping[str, Check] = ALL_CHECKS,
    measures: Sequence[Measure] = tuple(ALL_MEASURES.values()),
    since_us: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
    is_asked_to_stop: Callable[[], bool] = lambda: False,
) -> Summary:
    """Run checks and take measures.

    Args:
        exported: What to look at.
        out: A folder for the results: a new one, an empty one, or one of an earlier run, which goes.
        checks: Which ones.
        known: All that there are; the others stand in the summary as `not_run`.
        measures: Which ones to take.
        since_us: Leave out findings from before this time, microseconds; those without a time stay.
        limits: What counts as long, or as many.
        progress: Told how many checks and measures are done, of how many.
        is_asked_to_stop: Asked again and again; once it says so, all jobs of this Spark are ended.
    Returns:
        What is in the summary file.
    Raises:
        BadExport: the files cannot be read, or do not hold what the manifests say.
        FileExistsError: `out` holds something else.
        Stopped: it was asked to.
    """
    _make_room(out)
    try:
        return _carry_out(
            exported, out, checks, known, measures, since_us, limits, _Watched(progress, is_asked_to_stop)
        )
    except Stopped:
        # Nobody may take a part for the whole.
        _remove(out)
        raise


@attrs.frozen
class _Watched:
    """Whom to tell, and whom to ask."""

    progress: Callable[[int, int], None]
    is_asked_to_stop: Callable[[], bool]

    def check(self) -> None:
        """Go on, or not."""
        if self.is_asked_to_stop():
            raise Stopped


def _carry_out(
    exported: Audited,
    out: Path,
    checks: Sequence[Check],
    known: Mapping[str, Check],
    measures: Sequence[Measure],
    since_us: int | None,
    limits: Limits,
    watched: _Watched,
) -> Summary:
    asked = [one.tables for one in checks] + [one.tables for one in measures]
    needed = {name for names in asked for name in names}
    rows: dict[str, int] = {}
    try:
        for name in sorted(needed):
            watched.check()
            rows[name] = exported.read_rows(name)
    except _FAILURES as error:
        raise BadExport(f"the files cannot be read: {in_one_line(error)}") from error
    tables = {name: exported.table(name) for name in needed} | {"stores": exported.stores}
    with sharing(tables) as shared:
        run = _Run(exported, out, shared, rows, since_us, limits)
        outcomes, failed = _all_of(run, checks, measures, watched)
    watched.check()
    summary = Summary(
        run_id=run.id,
        taken_at_us=exported.taken_at_us,
        since_us=since_us,
        stores=exported.uuids,
        rows=rows,
        checks=[
            outcomes.get(name) or Outcome(check=name, severity=check.severity, status="not_run")
            for name, check in known.items()
        ],
        measures_failed=failed,
    )
    write_summary(out, summary)
    return summary


class _Run:
    def __init__(
        self,
        exported: Audited,
        out: Path,
        tables: Mapping[str, DataFrame],
        rows: dict[str, int],
        since_us: int | None,
        limits: Limits,
    ) -> None:
        self.id = new_uuid7()
        self._spark = exported.spark
        self._out = out
        self._tables = tables
        self._rows = rows
        self._since_us = since_us
        self._limits = limits

    def check(self, check: Check) -> Outcome:
        begun = time.perf_counter()
        path = str(self._out / "finding" / f"check={check.name}")
        try:
            found = check.find(self._asked(check), self._limits)
            if self._since_us is not None:
                found = found.where(fn.col("at").isNull() | (fn.col("at") >= self._since_us))
            found.select(
                fn.lit(self.id).alias("run_id"), fn.lit(str(check.severity)).alias("severity"), *FINDING.names
            ).write.parquet(path)
            findings = count_rows(Path(path))
        except Exception as error:
            # It may be somebody else's check: whatever it raises is its outcome.
            return Outcome(
                check=check.name,
                severity=check.severity,
                status="failed",
                seconds=_seconds(begun),
                error=in_one_line(error),
            )
        return Outcome(
            check=check.name,
            severity=check.severity,
            status="ran",
            rows_scanned=sum(self._rows[name] for name in check.tables),
            findings=findings,
            seconds=_seconds(begun),
        )

    def _asked(self, check: Check) -> Mapping[str, DataFrame]:
        shared = [name for name in SHARED if name in self._tables] if "history" in check.tables else []
        names = (*check.tables, "stores", *shared)
        return {name: self._tables[name] for name in names}

    def cancel(self, futures: Collection[Future[object]]) -> None:
        """End what is under way; again, since what is still planned begins its job later."""
        for _ in range(_MOST_TURNS):
            if not any(future.running() for future in futures):
                break
            self._spark.sparkContext.cancelAllJobs()
            time.sleep(_TURN_S)

    def measure(self, measure: Measure) -> str | None:
        """Take it; why it could not be, if so."""
        try:
            taken = measure.measure({name: self._tables[name] for name in measure.tables})
            taken.coalesce(1).write.parquet(str(self._out / "measure" / measure.name))
        except _FAILURES as error:
            return in_one_line(error)
        return None


def _all_of(
    run: _Run, checks: Sequence[Check], measures: Sequence[Measure], watched: _Watched
) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Checks and measures, some at once: while one is planned, or has one task left, another one has the cores."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        checking = {check.name: pool.submit(run.check, check) for check in checks}
        measuring = {measure.name: pool.submit(run.measure, measure) for measure in measures}
        left = cast("set[Future[object]]", {*checking.values(), *measuring.values()})
        count = len(left)
        while left:
            # In short turns: only between them this thread sees a signal, and it must not be torn out of Spark.
            done, left = wait(left, _TURN_S, FIRST_COMPLETED)
            if watched.is_asked_to_stop():
                pool.shutdown(wait=False, cancel_futures=True)
                run.cancel(left)
                raise Stopped
            if done:
                watched.progress(count - len(left), count)
    reasons = {name: future.result() for name, future in measuring.items()}
    failed = {name: why for name, why in reasons.items() if why is not None}
    return {name: future.result() for name, future in checking.items()}, failed


def _make_room(out: Path) -> None:
    if out.exists() and any(out.iterdir()) and not is_ours(out / FILE):
        raise FileExistsError(f"{out} holds something else than an audit; give a new folder")
    _remove(out)
    out.mkdir(parents=True, exist_ok=True)
    # From here on the folder is known as ours, also after a run that was cut off.
    (out / FILE).touch()


def _remove(out: Path) -> None:
    """Take away what a run writes."""
    for name in _FOLDERS:
        shutil.rmtree(out / name, ignore_errors=True)
    (out / FILE).unlink(missing_ok=True)


def in_one_line(error: Exception) -> str:
    """An error in short: of one from Java the cause, which comes last, and not the way to it."""
    first, *others = f"{type(error).__name__}: {error}".splitlines()
    causes = [line.removeprefix("Caused by: ") for line in others if line.startswith(("Caused by: ", ": "))]
    return f"{first} {causes[-1].removeprefix(': ')}"[:300] if causes else first[:300]


def _seconds(begun: float) -> float:
    return round(time.perf_counter() - begun, 2)
