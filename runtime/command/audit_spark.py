"""What the commands of the audit share: folders of exports, and a Spark that reads them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from .audit_stop import asked_to_stop
from .options import TEXT
from .problem import Problem
from .screen import notice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...storage.audit.exported import Exported

_PATH: Final = click.Path(path_type=Path)

folders_argument = click.argument("folders", nargs=-1, required=True, type=_PATH)
master_option = click.option(
    "--master", type=TEXT, default="local[*]", show_default=True, help="Where Spark runs."
)

ui_option = click.option(
    "--ui", is_flag=True, help="Serve Spark's own page while it runs; its address is on standard error."
)

STOPPED: Final = "ended by a signal; nothing of it was kept"

_FEW_ROWS: Final = 200_000
"""Up to so many rows Spark ends sooner where it plans little and compiles nothing (docs/explanation/performance.md)."""


def need(*modules: str) -> None:
    """Refuse to begin without the packages of the extra.

    Raises:
        Problem: exit code 2, one is not installed.
    """
    if any(find_spec(name) is None for name in modules):
        raise Problem("the audit needs more packages: pip install 'shardline[audit]'")


@contextmanager
def spark_problems() -> Generator[None]:
    """What cannot be audited is told in one line, with exit code 2."""
    from ...actors.errors import BusError  # noqa: PLC0415
    from ...storage.audit.checks.registry import UnknownCheck  # noqa: PLC0415
    from ...storage.audit.java import NoJava  # noqa: PLC0415
    from ...storage.audit.manifest import BadExport  # noqa: PLC0415
    from ...storage.audit.run import Stopped  # noqa: PLC0415

    try:
        yield
    except (Stopped, KeyboardInterrupt) as error:
        raise Problem(STOPPED) from error
    except (BadExport, BusError, NoJava, UnknownCheck, OSError) as error:
        raise Problem(str(error)) from error


@contextmanager
def reading(
    folders: Sequence[Path], master: str, *, ui: bool = False
) -> Generator[tuple[Exported, Callable[[], bool]]]:
    """Exports as Spark reads them, and whether a signal has come; Spark ends with the block.

    Whoever is told of one ends what is under way: from then on Spark says nothing of it.

    Raises:
        BadExport: there is none, or one is damaged.
        NoJava: there is none for Spark.
        Stopped: a signal came while Spark started.
    """
    from ...storage.audit.exported import Exported  # noqa: PLC0415
    from ...storage.audit.manifest import read_exports  # noqa: PLC0415
    from ...storage.audit.run import Stopped  # noqa: PLC0415
    from ...storage.audit.session import hush, is_local, open_session  # noqa: PLC0415

    # Starting Spark takes seconds: what is not there is told before.
    exports = read_exports(folders).values()
    rows = sum(part.rows for many in exports for one in many for part in one.tables.values())
    with asked_to_stop() as asked:
        spark = open_session(master, small=is_local(master) and rows <= _FEW_ROWS, ui=ui)

        def is_asked_to_stop() -> bool:
            stops = asked.is_set()
            if stops:
                hush(spark)
            return stops

        try:
            asked.listen()
            if asked.is_set():
                raise Stopped
            tell_page(spark)
            yield Exported(spark, *folders), is_asked_to_stop
        finally:
            hush(spark)
            spark.stop()


def tell_page(spark: SparkSession) -> None:
    """Say where Spark's own page is, if it was asked for."""
    url = spark.sparkContext.uiWebUrl
    if url is not None:
        notice(f"Spark's page: {url}")


__all__ = ["folders_argument", "master_option", "need", "reading", "spark_problems", "tell_page", "ui_option"]
