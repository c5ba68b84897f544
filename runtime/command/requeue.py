"""`shardline dlq requeue` and `purge`: dead letters through again, or gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from ...actors.identifiers import new_uuid7
from ...storage.sqlite.listing import dead_letters
from ...storage.sqlite.overview import count_dead
from ..control.execute import ControlResult
from ..control.verbs import MAX_ROWS, Purge, Requeue, RowRef
from ..exit_code import ExitCode
from .arguments import parse_filters, parse_page, parse_row, parse_time
from .confirm import confirm
from .cut_off import cut_off
from .deciding import (
    Asking,
    answer,
    decide,
    deciding,
    hand_over,
    raise_unless_done,
    result_record,
    still_waiting,
)
from .looking import looking
from .options import TEXT, json_option, limit_option, store_option, yes_option
from .output import counted, show_json, when
from .problem import Problem
from .screen import notice

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
    asked: dict[str, Requeue] = {}
    if rows:
        if any("=" in word for word in chosen):
            which = str(rows[0]) if len(rows) == 1 else f"{rows[0]} ... {rows[-1]}"
            confirm(f"requeue {counted(len(rows), 'dead letter')} ({which})?", yes=yes)
        parts = [rows[first : first + MAX_ROWS] for first in range(0, len(rows), MAX_ROWS)]
        asked = {new_uuid7(): Requeue(part) for part in parts}
    else:
        # They may all have been taken by the same command, which was cut off: that decision stands, and is waited for.
        asked = cut_off(asking)
        if not asked:
            raise Problem("no dead letter meets these filters", ExitCode.FAILURE)
        notice("no dead letter meets these filters; an earlier requeue of yours was cut off and goes on")
        rows = tuple(row for verb in asked.values() for row in verb.rows)
    results = hand_over(asking, asked)
    told = [_told(result, verb.rows) for result, verb in zip(results, asked.values(), strict=True)]
    if as_json:
        show_json(told)
    else:
        _say(rows, [row for one in told for row in _list(one["requeued"])])
    _raise_unless_done(results, [row for one in told for row in _refusals(one)])


def _told(result: ControlResult, rows: Sequence[RowRef]) -> dict[str, object]:
    """A result as programs get it, with the same fields for one row, which is refused whole, and for several."""
    is_whole = result.status == "refused" and len(rows) == 1
    refused = [{"row": str(rows[0]), "code": result.code}] if is_whole else []
    told = result_record(result)
    return {**told, "requeued": told.get("requeued", []), "refused": told.get("refused", refused)}


def _refusals(told: Mapping[str, object]) -> list[Mapping[object, object]]:
    return [row for row in _list(told["refused"]) if isinstance(row, dict)]


def _say(rows: Sequence[RowRef], requeued: Sequence[object]) -> None:
    if len(rows) > 1:
        click.echo(f"{len(requeued):,} {'is on its' if len(requeued) == 1 else 'are on their'} way again")
    elif requeued:
        click.echo(f"{rows[0]} is on its way again")


def _raise_unless_done(results: Sequence[ControlResult], refused: Sequence[Mapping[object, object]]) -> None:
    waiting = [result for result in results if result.status == "waiting"]
    if waiting:
        raise Problem(still_waiting(waiting), ExitCode.NOT_YET_DONE)
    for result in results:
        raise_unless_done(result)
    if refused:
        named = ", ".join(f"{row['row']} {row['code']}" for row in refused[:_MOST_NAMED])
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
        what = f"{counted(messages, 'message')} and {counted(sends, 'send')}"
        confirm(f"empty {what} that died at {when(until_us)} or before, for good?", yes=yes)
    result = decide(asking, Purge(until_us))
    answer(
        asking,
        result,
        f"purged {_said(result, 'message')} and {_said(result, 'send')}",
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


def _said(result: ControlResult, what: str) -> str:
    count = result.values.get(f"{what}s")
    return counted(count, what) if isinstance(count, int) else f"an unknown number of {what}s"


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType]


__all__ = ["purge", "requeue"]
