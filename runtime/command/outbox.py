"""`shardline outbox`: sends, and the decisions over them."""

from __future__ import annotations

from pathlib import Path

import click

from ...storage.sqlite.filters import NO_FILTERS
from ...storage.sqlite.listing import SendLine, sends
from .arguments import now_us, parse_filters, parse_page
from .detail import show_sends
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
from .recipients import aliases, forget, unreachable
from .screen import notice
from .settle import cancel, resolve
from .verify import verify


@click.group("outbox", cls=Group)
def command() -> None:
    """Sends, and those whose result nobody knows."""


@command.command("list")
@filters_argument
@store_option
@limit_option
@offset_option
@after_option
@json_option
def list_sends(
    filters: tuple[str, ...], store: Path, limit: int, offset: int, after: str | None, as_json: bool
) -> None:
    """List sends, the newest first.

    Fields to filter by: id, key, channel, state, code, own_code, part, since, until. state=held are the parts behind
    one that waits for a decision.
    """
    chosen = parse_filters(filters, "outbox") if filters else NO_FILTERS
    page = parse_page(limit, offset, after, "out")
    with looking(store) as look:
        found = sends(look, chosen, page)
    if as_json:
        show_json(record_of(line) for line in found)
        return
    if not found:
        notice("no such send")
        return
    now = now_us()
    show_table(
        ("id", "state", "age#", "key", "tries#", "text, or why it failed"),
        [
            (
                line.id,
                "held" if line.held else line.state,
                age(line.created_at_us, now),
                line.key,
                line.attempts,
                _what(line),
            )
            for line in found
        ],
    )


@command.command("show")
@click.argument("row", type=TEXT, metavar="KEY")
@store_option
@click.option("--history", is_flag=True, help="With every transition; reads the whole history.")
@json_option
def show(row: str, store: Path, history: bool, as_json: bool) -> None:
    """Show a send with its text and every stored error.

    KEY is its id (out-7), or its idempotency key; that may be shared by one send a channel and part.
    """
    show_sends(store, row, with_history=history, as_json=as_json)


command.add_command(resolve)
command.add_command(cancel)
command.add_command(verify)
command.add_command(aliases)
command.add_command(unreachable)
command.add_command(forget)


def _what(line: SendLine) -> str | None:
    return line.text if line.code is None else reason(line.code, line.own_code, line.error)


__all__ = ["command"]
