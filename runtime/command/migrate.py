"""`shardline migrate`: bring a store's schema up to date."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ...storage.sqlite.migrate import load_migrations
from ...storage.sqlite.upgrade import upgrade_file
from ..exit_code import ExitCode
from .arguments import now_us
from .confirm import confirm
from .looking import looking, store_problems
from .options import json_option, store_option, yes_option
from .output import show_json
from .problem import Problem
from .safe_text import safe_text


@click.command("migrate")
@store_option
@click.option("--check", is_flag=True, help="Only tell; exit code 1 if there is something to do.")
@yes_option
@json_option
def command(store: Path, check: bool, yes: bool, as_json: bool) -> None:
    """Bring a store's schema up to date.

    A backup copy beside it comes first. A bot does the same when it opens a store; this command does it while no bot
    runs, and nothing else.
    """
    newest = load_migrations()[-1].number
    with looking(store, any_schema=True) as look:
        schema = look.meta.schema
    if schema > newest:
        raise Problem(
            f"{store}: SCHEMA_TOO_NEW: it has schema {schema}, this version knows {newest}; run that version or a"
            " later one",
            ExitCode.FAILURE,
        )
    is_needed = schema < newest
    backup: Path | None = None
    if is_needed and not check:
        confirm(f"upgrade {store} from schema {schema} to {newest}?", yes=yes)
        with store_problems(store):
            done = upgrade_file(store, now_us())
        schema, backup = done.after, done.backup
    if as_json:
        record = {"store": str(store), "schema": schema, "newest": newest, "is_needed": schema < newest}
        show_json([{**record, "backup": None if backup is None else str(backup)}])
    elif backup is not None:
        click.echo(f"schema {schema}; the store as it was is in {safe_text(str(backup))}")
    elif is_needed:
        click.echo(f"schema {schema}, the newest is {newest}: `shardline migrate` upgrades it")
    else:
        click.echo(f"schema {schema} is the newest: nothing to do")
    if schema < newest:
        sys.exit(ExitCode.FAILURE)


__all__ = ["command"]
