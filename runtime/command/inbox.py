"""`shardline inbox`: accepted messages."""

from __future__ import annotations

from pathlib import Path

import click

from ...storage.sqlite.filters import NO_FILTERS
from ...storage.sqlite.listing import MessageLine, messages
from .arguments import now_us, parse_filters, parse_page, parse_row
from .detail import show_message
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
from .screen import notice


@click.group("inbox", cls=Group)
def command() -> None:
    """Accepted messages."""


@command.command("list")
@filters_argument
@store_option
@limit_option
@offset_option
@after_option
@json_option
def list_messages(
    filters: tuple[str, ...], store: Path, limit: int, offset: int, after: str | None, as_json: bool
) -> None:
    """List messages, the newest first.

    Fields to filter by: id, key, topic, channel, status, code, own_code, part, since, until.
    """
    chosen = parse_filters(filters, "inbox") if filters else NO_FILTERS
    page = parse_page(limit, offset, after, "in")
    with looking(store) as look:
        found = messages(look, chosen, page)
    if as_json:
        show_json(record_of(line) for line in found)
        return
    if not found:
        notice("no such message")
        return
    now = now_us()
    show_table(
        ("id", "status", "age#", "key", "topic", "text, or why it failed"),
        [
            (line.id, line.status, age(line.accepted_at_us, now), line.key, line.topic, _what(line))
            for line in found
        ],
    )


@command.command("show")
@click.argument("row", type=TEXT, metavar="ID")
@store_option
@click.option("--history", is_flag=True, help="With every transition; reads the whole history.")
@json_option
def show(row: str, store: Path, history: bool, as_json: bool) -> None:
    """Show one message with its text and every stored error."""
    show_message(store, parse_row(row, "in"), with_history=history, as_json=as_json)


def _what(line: MessageLine) -> str | None:
    return line.text if line.code is None else reason(line.code, line.own_code, line.error)


__all__ = ["command"]
