"""`shardline control`: decisions of people and other processes, and what became of them."""

from __future__ import annotations

from pathlib import Path

import click

from ...storage.records import ControlStatus, StoredControl
from ...storage.sqlite.listing import controls
from ..control.execute import result_of
from ..exit_code import ExitCode
from .arguments import now_us
from .deciding import raise_unless_done
from .group import Group
from .looking import looking
from .options import TEXT, json_option, limit_option, offset_option, store_option
from .output import age, json_line, show_fields, show_json, show_table, when
from .problem import Problem
from .screen import notice


@click.group("control", cls=Group)
def command() -> None:
    """Decisions, and what became of them."""


@command.command("list")
@store_option
@limit_option
@offset_option
@click.option("--waiting", is_flag=True, help="Only those that nobody has carried out yet.")
@json_option
def list_controls(store: Path, limit: int, offset: int, waiting: bool, as_json: bool) -> None:
    """List decisions, the newest first."""
    status = ControlStatus.WAITING if waiting else None
    with looking(store) as look:
        found = controls(look, status, limit=limit, offset=offset)
    if as_json:
        show_json(_record(control) for control in found)
        return
    if not found:
        notice("no such decision")
        return
    now = now_us()
    show_table(
        ("id", "status", "age#", "verb", "actor", "code"),
        [(one.id, one.status, age(one.created_at_us, now), one.verb, one.actor, one.code) for one in found],
    )


@command.command("show")
@click.argument("control_id", type=TEXT, metavar="ID")
@store_option
@json_option
def show(control_id: str, store: Path, as_json: bool) -> None:
    """Show one decision; end as it ended.

    Exit code: 0 it was carried out; 1 it was refused, or there is none; 4 it waits for the owner.
    """
    with looking(store) as look:
        control = look.ask(lambda reader: reader.control(control_id))
    if control is None:
        raise Problem(f"there is no decision {control_id}", ExitCode.FAILURE)
    if as_json:
        click.echo(json_line(_record(control)))
    else:
        show_fields(
            [
                ("id", control.id),
                ("verb", control.verb),
                ("args", control.args),
                ("actor", control.actor),
                ("status", str(control.status)),
                ("code", control.code),
                ("result", control.result),
                ("created_at", when(control.created_at_us)),
                ("done_at", when(control.done_at_us)),
            ]
        )
    raise_unless_done(result_of(control))


def _record(control: StoredControl) -> dict[str, object]:
    return {
        "id": control.id,
        "verb": control.verb,
        "args": control.args,
        "actor": control.actor,
        "status": str(control.status),
        "code": control.code,
        "result": result_of(control).values,
        "created_at": when(control.created_at_us),
        "done_at": when(control.done_at_us),
    }


__all__ = ["command"]
