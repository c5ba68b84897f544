"""`shardline audit watch`: live stores, checked as they grow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ..exit_code import ExitCode
from .audit_spark import master_option, need, spark_problems, tell_page, ui_option
from .audit_stop import asked_to_stop
from .paths import check_store
from .problem import Problem
from .safe_text import safe_text
from .screen import notice

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from ...storage.audit.watch import Told

_PATH: Final = click.Path(path_type=Path)
_TURN_S: Final = 1
_MOST_TURNS: Final = 30
"""How long a stop waits for a batch under way; a batch that is cut off runs again at the next start."""


@click.command("watch")
@click.argument("stores", nargs=-1, required=True, type=_PATH)
@click.option("--out", type=_PATH, required=True, help="Where findings go; a second watch into it goes on.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@click.option("--once", is_flag=True, help="Look at what is there now, then end.")
@master_option
@ui_option
def watch(stores: tuple[Path, ...], out: Path, every_s: float, once: bool, master: str, ui: bool) -> None:
    """Follow the history of live stores, with the checks that need nothing else.

    It goes on until it is stopped, and then where it was. A store that was replaced or put back ends it.

    Exit code: 0 nothing found; 1 something found; 2 it could not be done.
    """
    need("pyspark", "pyarrow")
    from ...storage.audit.report import said_detail  # noqa: PLC0415
    from ...storage.audit.session import hush, open_session  # noqa: PLC0415
    from ...storage.audit.watch import problem_of, start_watch  # noqa: PLC0415

    for store in stores:
        check_store(store, "STORE")
    found = batches = 0

    def tell(told: Told) -> None:
        nonlocal found, batches
        found += told.findings
        batches += 1
        notice(f"batch {told.batch}: {told.rows:,} new rows, {told.findings:,} findings")
        for check, store, row, detail in told.first:
            click.echo(safe_text(f"{check}  {store}  {row}  {said_detail(detail)}"))

    problem: str | None = None
    with spark_problems():
        spark = open_session(master, ui=ui)
        try:
            tell_page(spark)
            query = start_watch(spark, stores, out, tell, every_s=None if once else every_s)
            if not once:
                notice(f"watching; looks every {every_s:g} seconds, Ctrl-C ends it")
            try:
                _follow(query, lambda: hush(spark))
            except Exception:
                # Spark raises what `problem_of` then tells in one line.
                if query.exception() is None:
                    raise
            problem = problem_of(query)
        finally:
            hush(spark)
            spark.stop()
    if problem is not None:
        raise Problem(problem)
    if once and not batches:
        notice("nothing new since the last watch")
    if found:
        sys.exit(ExitCode.FAILURE)


def _follow(query: StreamingQuery, ends: Callable[[], None]) -> None:
    """Until it ends, or a signal asks to: then a batch that is under way is finished, so that nothing is torn."""
    with asked_to_stop() as asked:
        while query.isActive and not asked.is_set():
            query.awaitTermination(_TURN_S)
        for turn in range(_MOST_TURNS):
            if not (query.isActive and _is_busy(query)):
                break
            if turn == 0:
                notice("ends when the batch under way is done; once more ends it at once")
            query.awaitTermination(_TURN_S)
        ends()
        query.stop()


def _is_busy(query: StreamingQuery) -> bool:
    """Whether it has a batch under way, or is about to look for its first one."""
    status = query.status
    return bool(status["isTriggerActive"]) or str(status["message"]).startswith("Initializing")


__all__ = ["watch"]
