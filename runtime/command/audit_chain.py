"""`shardline audit verify-chain`: the chains of many stores, their segments side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from ..exit_code import ExitCode
from .audit_spark import folders_argument, master_option, need, reading, spark_problems, ui_option
from .heads import read_heads
from .output import show_table
from .problem import Problem
from .screen import counting_bar, notice

_PATH = click.Path(path_type=Path)
_CHECKS = ("hash_chain", "sequence_gaps")
_MOST_SHOWN = 100


@click.command("verify-chain")
@folders_argument
@click.option(
    "--head",
    "heads",
    type=_PATH,
    multiple=True,
    metavar="FILE",
    help="Heads of one store kept elsewhere, which its chains must hold; may be given again.",
)
@master_option
@ui_option
def verify_chain(folders: tuple[Path, ...], heads: tuple[Path, ...], master: str, ui: bool) -> None:
    """Check the hash chains of exports.

    Each segment between two anchors is checked by itself, so Spark checks many at once. A chain that was cut off or
    made anew is found where heads were kept elsewhere: `shardline outbox verify --save-head` writes them.

    Exit code: 0 whole; 1 not; 2 it could not be looked at.
    """
    need("pyspark", "pyarrow")
    from ...storage.audit.checks.registry import pick_checks  # noqa: PLC0415
    from ...storage.audit.kept import compare_heads  # noqa: PLC0415
    from ...storage.audit.report import read_rows, said_detail  # noqa: PLC0415
    from ...storage.audit.run import run_audit  # noqa: PLC0415

    kept = [read_heads(path) for path in heads]
    shown: list[tuple[object, ...]] = []
    with (
        TemporaryDirectory(prefix="shardline-audit-") as work,
        spark_problems(),
        reading(folders, master, ui=ui) as (exported, is_asked_to_stop),
        counting_bar("checks") as progress,
    ):
        summary = run_audit(
            exported,
            Path(work),
            pick_checks(_CHECKS),
            measures=(),
            progress=progress,
            is_asked_to_stop=is_asked_to_stop,
        )
        wrong = [fault for one in kept for fault in compare_heads(exported, one.store, one.heads)]
        for name in _CHECKS:
            folder = Path(work) / "finding" / f"check={name}"
            rows = read_rows(folder) if folder.is_dir() else []
            shown += [(name, row["store"], row["ref_id"], said_detail(row["detail"])) for row in rows]
        shown += [("kept_head", one.store, f"{one.shard}/{one.hseq}", one.text) for one in wrong]
        chains = exported.table("shard").where("hseq > 0").count()
    if not summary.is_complete:
        errors = "; ".join(one.error for one in summary.checks if one.error)
        raise Problem(f"the chains could not be checked: {errors}")
    looked = f"{summary.rows['history']:,} rows in {chains:,} chains of {len(summary.stores):,} stores"
    if not shown:
        against = ", the kept heads are in them" if kept else ""
        click.echo(f"the chains are whole: {looked}{against}")
        return
    show_table(("fault", "store", "row", "what"), shown[:_MOST_SHOWN])
    if len(shown) > _MOST_SHOWN:
        notice(f"and {len(shown) - _MOST_SHOWN:,} more")
    notice(f"the chains are not whole ({looked})")
    sys.exit(ExitCode.FAILURE)


__all__ = ["verify_chain"]
