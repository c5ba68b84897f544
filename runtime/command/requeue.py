"""`shardline dlq requeue` and `purge`: dead letters through again, or gone."""

from __future__ import annotations

from pathlib import Path

import click

from ...storage.sqlite.listing import dead_letters
from ..control.verbs import MAX_ROWS, Purge, Requeue, RowRef
from ..run import ExitCode
from .arguments import parse_filters, parse_page, parse_row, parse_time
from .confirm import confirm
from .deciding import Asking, answer, decide, deciding, raise_unless_done, said_of
from .looking import looking
from .options import json_option, limit_option, store_option, yes_option
from .output import json_line, when
from .problem import Problem


@click.command("requeue")
@click.argument("chosen", nargs=-1, required=True, metavar="ID|FIELD=VALUE...")
@store_option
@limit_option
@yes_option
@deciding
@json_option
def requeue(
    chosen: tuple[str, ...],
    store: Path,
    limit: int,
    yes: bool,
    actor: str | None,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Send dead messages and sends through again.

    Name them by id (in-7, out-3), or by filters: then the newest --limit that meet all of them are taken. A parked
    message is named by its id.
    """
    asking = Asking(store=store, actor=actor, timeout_s=timeout_s, as_json=as_json)
    rows = _rows(chosen, store, limit)
    if not rows:
        raise Problem("no dead letter meets these filters", ExitCode.FAILURE)
    if any("=" in word for word in chosen):
        confirm(f"requeue {len(rows):,} dead letters ({rows[0]} ... {rows[-1]})?", yes=yes)
    if len(rows) == 1:
        answer(asking, decide(asking, Requeue(rows)), f"{rows[0]} is on its way again")
        return
    requeued: list[object] = []
    refused: list[object] = []
    for first in range(0, len(rows), MAX_ROWS):
        result = decide(asking, Requeue(rows[first : first + MAX_ROWS]))
        raise_unless_done(result)
        requeued += _list(result.values.get("requeued"))
        refused += _list(result.values.get("refused"))
    if as_json:
        click.echo(json_line({"requeued": requeued, "refused": refused}))
    else:
        click.echo(f"{len(requeued):,} are on their way again")
    if refused:
        raise Problem(f"{len(refused):,} were refused: they are not dead any more", ExitCode.FAILURE)


@click.command("purge")
@click.option(
    "--older-than", required=True, metavar="TIME", help="Those that died then or before: 30d, or a time."
)
@store_option
@yes_option
@deciding
@json_option
def purge(
    older_than: str, store: Path, yes: bool, actor: str | None, timeout_s: float, as_json: bool
) -> None:
    """Empty old dead letters for good.

    What they said goes; their keys stay, so that a repeat is still known, and so does their history.
    """
    asking = Asking(store=store, actor=actor, timeout_s=timeout_s, as_json=as_json)
    until_us = parse_time(older_than, "--older-than")
    confirm(f"empty everything that died at {when(until_us)} or before, for good?", yes=yes)
    result = decide(asking, Purge(until_us))
    answer(
        asking,
        result,
        f"purged {said_of(result, 'messages')} messages and {said_of(result, 'sends')} sends",
    )


def _rows(chosen: tuple[str, ...], store: Path, limit: int) -> tuple[RowRef, ...]:
    filters = [word for word in chosen if "=" in word]
    if not filters:
        rows = [parse_row(word, None) for word in chosen]
        return tuple(dict.fromkeys(RowRef(row.kind, row.number) for row in rows))
    if len(filters) < len(chosen):
        raise Problem("name rows by id or by filters, not by both")
    wanted = parse_filters(filters, "dlq")
    with looking(store) as look:
        found = dead_letters(look, wanted, parse_page(limit, 0, None, None))
    return tuple(RowRef.parse(line.id) for line in found)


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType]


__all__ = ["purge", "requeue"]
