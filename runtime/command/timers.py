"""`shardline timers`: what is to arrive later."""

from __future__ import annotations

from pathlib import Path

import click

from ...storage.sqlite.timer_listing import TimerLine, timers
from ..control.verbs import CancelTimer
from .arguments import now_us, parse_timer_filters
from .confirm import confirm
from .deciding import Asking, answer, decide, deciding
from .group import Group
from .looking import looking
from .options import (
    TEXT,
    filters_argument,
    json_option,
    limit_option,
    offset_option,
    store_option,
    yes_option,
)
from .output import age, record_of, show_json, show_table
from .screen import notice


@click.group("timers", cls=Group)
def command() -> None:
    """What is to arrive later, once or again and again."""


@command.command("list")
@filters_argument
@store_option
@limit_option
@offset_option
@json_option
def list_timers(filters: tuple[str, ...], store: Path, limit: int, offset: int, as_json: bool) -> None:
    """List timers, the next one first.

    Fields to filter by: id, key, topic, since, until.
    """
    chosen = parse_timer_filters(filters)
    with looking(store) as look:
        found = timers(look, chosen, limit=limit, offset=min(offset, 2**62))
    if as_json:
        show_json(record_of(line) for line in found)
        return
    if not found:
        notice("no such timer")
        return
    now = now_us()
    show_table(
        ("id", "due#", "key", "again", "text"),
        [(line.id, age(line.due_at_us, now), line.key, _again(line), line.text) for line in found],
    )


@command.command("cancel")
@click.argument("timer", type=TEXT, metavar="ID")
@store_option
@yes_option
@deciding
@json_option
def cancel(timer: str, store: Path, yes: bool, actor: str | None, timeout_s: float, as_json: bool) -> None:
    """Take a timer back.

    ID is as `timers list` shows it. One that the bot declares (every-...) is taken out of its topology instead.
    """
    confirm(f"take {timer} back?", yes=yes)
    asking = Asking(store=store, actor=actor, timeout_s=timeout_s, as_json=as_json)
    answer(asking, decide(asking, CancelTimer(timer)), f"{timer} is taken back")


def _again(line: TimerLine) -> str | None:
    return line.rule if line.zone is None else f"{line.rule} {line.zone}"


__all__ = ["command"]
