"""What an audit found, for people: a table of the checks, and of each that found something the first findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from .output import show_table

if TYPE_CHECKING:
    from pathlib import Path

    from ...storage.audit.summary import Summary

_MOST: Final = 10
"""Findings of one check that are shown; the folder has them all."""
_FIELDS: Final = ("store", "channel", "conversation_key", "ref_table", "ref_id")


def show_results(summary: Summary, out: Path) -> None:
    """Print them.

    Args:
        summary: Of the run.
        out: The folder that the run wrote.
    Raises:
        BadExport: a file of it is damaged.
    """
    from ...storage.audit.charts import show_time  # noqa: PLC0415 (needs the extra)
    from ...storage.audit.checks.registry import ALL_CHECKS  # noqa: PLC0415
    from ...storage.audit.report import read_rows, said_detail, verdict  # noqa: PLC0415

    show_table(
        ("check", "severity", "status", "rows#", "findings#", "seconds#", "error"),
        [
            (
                one.check,
                one.severity,
                one.status,
                one.rows_scanned,
                one.findings,
                one.seconds or None,
                one.error,
            )
            for one in summary.checks
        ],
    )
    for one in summary.checks:
        if not one.findings:
            continue
        click.echo(f"\n{one.check}: {one.findings:,}")
        if one.check in ALL_CHECKS:
            click.echo(ALL_CHECKS[one.check].doc)
        rows = read_rows(out / "finding" / f"check={one.check}", _MOST)[:_MOST]
        shown = [name for name in _FIELDS if any(row[name] is not None for row in rows)]
        show_table(
            (*shown, "at (UTC)", "detail"),
            [
                (
                    *(row[name] for name in shown),
                    show_time(row["at"], seconds=True) if isinstance(row["at"], int) else None,
                    said_detail(row["detail"]),
                )
                for row in rows
            ],
        )
        if one.findings > len(rows):
            click.echo(f"and {one.findings - len(rows):,} more")
    click.echo(f"\n{verdict(summary)}")


__all__ = ["show_results"]
