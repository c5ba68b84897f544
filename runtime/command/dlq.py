"""`shardline dlq`: messages and sends that gave up."""

from __future__ import annotations

from pathlib import Path

import click

from ...storage.sqlite.filters import NO_FILTERS
from ...storage.sqlite.listing import DeadLine, dead_letters
from .arguments import now_us, parse_filters, parse_page, parse_row
from .detail import show_message, show_sends
from .group import Group
from .looking import looking
from .options import (
    TEXT,
    after_option,
    filters_argument,
    json_option,
    limit_option,
    offset_option,
    store_option,
)
from .output import age, reason, record_of, show_json, show_table
from .requeue import purge, requeue
from .screen import notice


@click.group("dlq", cls=Group)
def command() -> None:
    """Messages and sends that gave up."""


@command.command("list")
@filters_argument
@store_option
@limit_option
@offset_option
@after_option
@json_option
def list_dead(
    filters: tuple[str, ...], store: Path, limit: int, offset: int, after: str | None, as_json: bool
) -> None:
    """List dead messages (in-…) and sends (out-…), the newest death first.

    Fields to filter by: id, kind, key, topic, channel, code, own_code, since, until.
    """
    chosen = parse_filters(filters, "dlq") if filters else NO_FILTERS
    page = parse_page(limit, offset, after, None)
    with looking(store) as look:
        found = dead_letters(look, chosen, page)
    if as_json:
        show_json(record_of(line) for line in found)
        return
    if not found:
        notice("no dead letter")
        return
    now = now_us()
    show_table(
        ("id", "died#", "key", "tries#", "why"),
        [(line.id, age(line.dead_at_us, now), line.key, line.attempts, _why(line)) for line in found],
    )


@command.command("show")
@click.argument("row", type=TEXT, metavar="ID")
@store_option
@click.option("--history", is_flag=True, help="With every transition; reads the whole history.")
@json_option
def show(row: str, store: Path, history: bool, as_json: bool) -> None:
    """Show one dead letter with its text and every stored error."""
    found = parse_row(row, None)
    if found.kind == "in":
        show_message(store, found, with_history=history, as_json=as_json)
    else:
        show_sends(store, str(found), with_history=history, as_json=as_json)


command.add_command(requeue)
command.add_command(purge)


def _why(line: DeadLine) -> str:
    return reason(line.code, line.own_code, line.error)


__all__ = ["command"]
