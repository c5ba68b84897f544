"""`shardline dlq requeue` and `purge`: dead letters through again, or gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ...storage.sqlite.listing import dead_letters
from ...storage.sqlite.overview import count_dead
from ..control.execute import ControlResult
from ..control.verbs import MAX_ROWS, Purge, Requeue, RowRef
from ..exit_code import ExitCode
from .arguments import parse_filters, parse_page, parse_row, parse_time
from .confirm import confirm
from .deciding import (
    Asking,
    answer,
    decide,
    decide_all,
    deciding,
    raise_unless_done,
    result_record,
    said_of,
    still_waiting,
)
from .looking import looking
from .options import TEXT, json_option, limit_option, store_option, yes_option
from .output import show_json, when
from .problem import Problem

_MOST_NAMED = 10


@click.command("requeue")
@click.argument("chosen", type=TEXT, nargs=-1, required=True, metavar="ID|FIELD=VALUE...")
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
    parts = [rows[first : first + MAX_ROWS] for first in range(0, len(rows), MAX_ROWS)]
    results = decide_all(asking, [Requeue(part) for part in parts])
    told = [_told(result, part) for result, part in zip(results, parts, strict=True)]
    if as_json:
        show_json(told)
    else:
        _say(rows, [row for one in told for row in _list(one["requeued"])])
    _raise_unless_done(results, [row for one in told for row in _list(one["refused"])])


def _told(result: ControlResult, rows: Sequence[RowRef]) -> dict[str, object]:
    """A result as programs get it, with the same fields for one row, which is refused whole, and for several."""
    is_whole = result.status == "refused" and len(rows) == 1
    refused = [{"row": str(rows[0]), "code": result.code}] if is_whole else []
    told = result_record(result)
    return {**told, "requeued": told.get("requeued", []), "refused": told.get("refused", refused)}


def _say(rows: Sequence[RowRef], requeued: Sequence[object]) -> None:
    if len(rows) > 1:
        click.echo(f"{len(requeued):,} are on their way again")
    elif requeued:
        click.echo(f"{rows[0]} is on its way again")


def _raise_unless_done(results: Sequence[ControlResult], refused: Sequence[object]) -> None:
    waiting = [result for result in results if result.status == "waiting"]
    if waiting:
        raise Problem(still_waiting(waiting), ExitCode.NOT_YET_DONE)
    for result in results:
        raise_unless_done(result)
    if refused:
        named = ", ".join(
            f"{row['row']} {row['code']}" for row in refused[:_MOST_NAMED] if isinstance(row, dict)
        )
        more = f" and {len(refused) - _MOST_NAMED:,} more" if len(refused) > _MOST_NAMED else ""
        raise Problem(f"refused: {named}{more}", ExitCode.FAILURE)


@click.command("purge")
@click.option(
    "--older-than",
    type=TEXT,
    required=True,
    metavar="TIME",
    help="Those that died then or before: 30d, or a time.",
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
    if not yes:
        with looking(store) as look:
            messages, sends = count_dead(look, until_us)
        what = f"{_counted(messages, 'message')} and {_counted(sends, 'send')}"
        confirm(f"empty {what} that died at {when(until_us)} or before, for good?", yes=yes)
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


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType]


__all__ = ["purge", "requeue"]
