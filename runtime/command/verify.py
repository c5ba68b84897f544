"""`shardline outbox verify`: whether the history is whole."""

from __future__ import annotations

import sys
from pathlib import Path

import attrs
import click

from ...storage.sqlite.verify import Verdict
from ...storage.sqlite.verify import verify as verify_history
from ..exit_code import ExitCode
from .arguments import now_us
from .heads import KeptHeads, read_heads, write_heads
from .looking import looking
from .options import json_option, store_option
from .output import show_json, show_table
from .paths import check_output
from .problem import Problem
from .screen import counting_bar, notice

_PATH = click.Path(path_type=Path)


@click.command("verify")
@store_option
@click.option("--head", type=_PATH, metavar="FILE", help="Heads kept elsewhere, which the chains must hold.")
@click.option("--save-head", type=_PATH, metavar="FILE", help="Where to write the heads, if all is whole.")
@json_option
def verify(store: Path, head: Path | None, save_head: Path | None, as_json: bool) -> None:
    """Check the whole history of a store.

    Every transition of every message and send is chained to the one before it. A row that was changed, taken away or
    moved is found, and a message or send that is not as its history left it. What a row says is in no hash: a text
    that was changed by hand is not found. Who can write the file can write a new history too: keep the heads elsewhere
    (--save-head) and compare them (--head).

    Exit code: 0 whole; 1 it is not, or the store cannot be read; 2 a file cannot be used.
    """
    kept = None if head is None else read_heads(head)
    if save_head is not None:
        check_output("--save-head", save_head)
        if save_head.exists():
            # It may be anything; only a file of heads is written over.
            read_heads(save_head)
    with looking(store) as look, counting_bar("rows") as progress:
        if kept is not None and kept.store != look.meta.uuid:
            raise Problem(
                f"--head {head} is of store {kept.store}, not of {look.meta.uuid}", ExitCode.FAILURE
            )
        verdict = verify_history(look, None if kept is None else kept.heads, progress=progress)
        uuid = look.meta.uuid
    is_whole = not verdict.findings
    if as_json:
        show_json([_record(store, uuid, verdict)])
    else:
        _show(verdict, kept)
    if save_head is not None:
        if is_whole:
            write_heads(save_head, uuid, verdict.heads, now_us=now_us())
        else:
            notice(f"{save_head} is not written: these heads are of a history that is not whole")
    if not is_whole:
        sys.exit(ExitCode.FAILURE)


def _record(store: Path, uuid: str, verdict: Verdict) -> dict[str, object]:
    return {
        "store": str(store),
        "uuid": uuid,
        "ok": not verdict.findings,
        "rows": verdict.rows,
        "pruned": verdict.pruned,
        "unproven_heads": verdict.unproven,
        "findings": [attrs.asdict(finding) for finding in verdict.findings],
        "more_findings": verdict.more,
    }


def _show(verdict: Verdict, kept: KeptHeads | None) -> None:
    pruned = f", {verdict.pruned:,} older ones pruned" if verdict.pruned else ""
    looked = f"{verdict.rows:,} rows in {len(verdict.heads)} chains{pruned}"
    if not verdict.findings:
        against = "" if kept is None else f", {_compared(verdict, kept)}"
        click.echo(f"the history is whole: {looked}{against}")
        return
    show_table(
        ("fault", "shard#", "row", "what"),
        [(one.fault, one.shard, one.row or one.hseq, one.text) for one in verdict.findings],
    )
    if verdict.more:
        notice(f"and {verdict.more:,} more")
    notice(f"the history is not whole ({looked}): keep a copy of the file, then compare a backup")


def _compared(verdict: Verdict, kept: KeptHeads) -> str:
    if not verdict.unproven:
        return "the kept heads are in it"
    known = len(kept.heads) - verdict.unproven
    return f"{known:,} of {len(kept.heads):,} kept heads are in it, the rows of the others are pruned: save new heads"


__all__ = ["verify"]
