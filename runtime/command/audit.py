"""`shardline audit`: exports, checks and a report. Spark and Arrow are loaded only where they are needed."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import attrs
import click

from ...actors.errors import BusError
from ..exit_code import ExitCode
from .arguments import now_us, parse_time
from .audit_chain import verify_chain
from .audit_results import show_results
from .audit_spark import STOPPED, folders_argument, master_option, need, reading, spark_problems, ui_option
from .audit_watch import watch
from .group import Group
from .options import TEXT
from .paths import check_output, check_store
from .problem import Problem
from .screen import counting_bar, notice

if TYPE_CHECKING:
    from ...storage.audit.checks.base import Check
    from ...storage.audit.summary import Summary

_PATH: Final = click.Path(path_type=Path)
_stores = click.argument("stores", nargs=-1, required=True, type=_PATH)
_checks = click.option(
    "--checks", type=TEXT, metavar="NAMES", help="Which ones, with commas between; else those that are on."
)
_since = click.option("--since", type=TEXT, metavar="TIME", help="Leave out findings from before this time.")
_fail_on = click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    default="warning",
    show_default=True,
    help="The least severity that makes the exit code 1.",
)


class _AuditGroup(Group):
    """A group whose first argument may be a store: then everything is done in one go."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Route to `all` what names no command."""
        if args and args[0] not in self.commands:
            args = ["all", *args]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; whatever keeps it from its end makes the exit code 2, since 1 is a finding."""
        try:
            return super().invoke(ctx)
        except (Problem, click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except BusError as error:
            raise Problem(str(error)) from error
        except OSError as error:
            # A reader that went away is nobody to tell, and click would end with 1.
            if error.errno == errno.EPIPE:
                ctx.exit(ExitCode.USAGE)
            raise Problem(str(error)) from error
        except KeyboardInterrupt as error:
            # What is kept, such as the results of which a page was being made, is for each command to say.
            raise Problem("ended by a signal") from error
        except Exception as error:
            traceback.print_exc()
            raise Problem("the audit could not be done; the traceback says where it broke") from error


@click.group("audit", cls=_AuditGroup)
def command() -> None:
    """Check the whole history of one bot or of many, on Spark.

    `shardline audit STORE` is `shardline audit all STORE`. It needs the extra `shardline[audit]`.

    Exit code: 0 nothing found; 1 something found; 2 it could not be done.
    """


@command.command("export")
@_stores
@click.option(
    "--to", "folder", type=_PATH, required=True, help="The folder of exports; a second one adds to it."
)
def export(stores: tuple[Path, ...], folder: Path) -> None:
    """Copy stores beside their bots and write them as Parquet files. It needs no Java."""
    need("pyarrow")
    _export(stores, folder)


@command.command("run")
@folders_argument
@click.option("--out", type=_PATH, required=True, help="Where findings, measures and the summary go.")
@_checks
@_since
@_fail_on
@master_option
@ui_option
def run(
    folders: tuple[Path, ...],
    out: Path,
    checks: str | None,
    since: str | None,
    fail_on: str,
    master: str,
    ui: bool,
) -> None:
    """Run checks over folders of exports, or over folders of such folders."""
    need("pyspark", "pyarrow")
    summary = _run(folders, out, _asked(checks, since), master, ui)
    notice(f"results: {out}; `shardline audit report {out}` makes a page of them")
    _end(summary, fail_on)


@command.command("report")
@click.argument("out", type=_PATH)
@click.option("--to", "page", type=_PATH, help="The page; else `report.html` in the folder.")
def report(out: Path, page: Path | None) -> None:
    """Make one HTML page of what a run wrote. It needs no Java."""
    need("pyspark", "pyarrow")
    _report(out, page or out / "report.html")


@command.command("all")
@_stores
@click.option("--out", type=_PATH, help="Where results and report go; else nothing is kept.")
@_checks
@_since
@_fail_on
@master_option
@ui_option
def everything(
    stores: tuple[Path, ...],
    out: Path | None,
    checks: str | None,
    since: str | None,
    fail_on: str,
    master: str,
    ui: bool,
) -> None:
    """Export, run and report in one go."""
    need("pyspark", "pyarrow")
    # What was asked for wrongly is told before hours of export.
    asked = _asked(checks, since)
    with TemporaryDirectory(prefix="shardline-audit-") as work:
        _export(stores, Path(work) / "export")
        place = Path(work) / "out" if out is None else out
        summary = _run((Path(work) / "export",), place, asked, master, ui)
        if out is not None:
            _report(out, out / "report.html")
    _end(summary, fail_on)


command.add_command(verify_chain)
command.add_command(watch)


@command.command("copy")
@click.argument("store", type=_PATH)
@click.option("--to", "target", type=_PATH, required=True, help="A new file.")
def copy(store: Path, target: Path) -> None:
    """Copy a store beside its bot, consistently; the copy is for Spark's format `shardline`."""
    need("pyspark", "pyarrow")
    from ...storage.audit.snapshot import copy_store  # noqa: PLC0415

    check_store(store, "STORE")
    check_output("--to", target)
    with spark_problems():
        copy_store(store, target)


def _export(stores: tuple[Path, ...], folder: Path) -> None:
    from ...storage.audit.export import export_store  # noqa: PLC0415
    from ...storage.audit.manifest import BadExport  # noqa: PLC0415
    from ...storage.audit.stores import name_stores  # noqa: PLC0415

    for store in stores:
        check_store(store, "STORE")
    with spark_problems():
        named = name_stores(stores)
    for store in named.values():
        try:
            with counting_bar("rows") as progress:
                manifest = export_store(store, folder, progress=progress)
        except (BusError, BadExport, OSError) as error:
            raise Problem(f"{store}: {error}") from error
        except KeyboardInterrupt as error:
            raise Problem(f"{store}: {STOPPED}") from error
        rows = sum(part.rows for part in manifest.tables.values())
        notice(f"{store}: {rows:,} rows, export {manifest.number} of store {manifest.store}")


@attrs.frozen
class _Asked:
    """What to run.

    Attributes:
        known: All checks there are.
        since_us: Leave out findings from before this time, microseconds.
    """

    known: Mapping[str, Check]
    picked: Sequence[Check]
    since_us: int | None


def _asked(checks: str | None, since: str | None) -> _Asked:
    from ...storage.audit.checks.registry import known_checks, pick_checks  # noqa: PLC0415

    since_us = None if since is None else parse_time(since, "--since")
    with spark_problems():
        known = known_checks()
        picked = pick_checks(None if checks is None else checks.split(","), known)
    return _Asked(known, picked, since_us)


def _run(folders: tuple[Path, ...], out: Path, asked: _Asked, master: str, ui: bool) -> Summary:
    from ...storage.audit.run import run_audit  # noqa: PLC0415

    with spark_problems():
        with (
            reading(folders, master, ui=ui) as (exported, is_asked_to_stop),
            counting_bar("checks") as progress,
        ):
            summary = run_audit(
                exported,
                out,
                asked.picked,
                known=asked.known,
                since_us=asked.since_us,
                progress=progress,
                is_asked_to_stop=is_asked_to_stop,
            )
        show_results(summary, out)
    return summary


def _report(out: Path, page: Path) -> None:
    from ...storage.audit.manifest import BadExport  # noqa: PLC0415
    from ...storage.audit.report import write_report  # noqa: PLC0415

    try:
        write_report(out, page, now_us=now_us())
    except (BadExport, OSError) as error:
        raise Problem(str(error)) from error
    click.echo(f"report: {page}")


def _end(summary: Summary, fail_on: str) -> None:
    from ...storage.audit.checks.base import Severity  # noqa: PLC0415

    if not summary.is_complete:
        raise Problem("not everything could be run; see the table, and `measures_failed` in the summary")
    if fail_on != "never" and summary.found(Severity(fail_on)):
        sys.exit(ExitCode.FAILURE)


__all__ = ["command"]
