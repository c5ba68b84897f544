"""`shardline doctor`: look a store over."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import attrs
import click

from ...actors.errors import BusError
from ...storage.records import OutboxState
from ...storage.sqlite.look import Look
from ...storage.sqlite.migrate import load_migrations
from ...storage.sqlite.overview import overview
from ..exit_code import ExitCode
from .arguments import now_us
from .checks import (
    Finding,
    Outcome,
    check_clock,
    check_content,
    check_decisions,
    check_log,
    check_owner,
    check_place,
    check_versions,
)
from .live import check_live, read_live
from .options import json_option, store_option
from .output import coloured, echo_lines, show_json
from .paths import check_store
from .problem import Problem
from .safe_text import safe_text
from .status import owner_line


@click.command("doctor")
@store_option
@click.option(
    "--full", is_flag=True, help="Compare every index, check the history's chains; may take minutes."
)
@click.option(
    "--adopt-account",
    is_flag=True,
    help="Say how another account of a platform takes the store over; nothing is changed, and nothing else looked at.",
)
@json_option
def command(store: Path, full: bool, adopt_account: bool, as_json: bool) -> None:
    """Look a store over.

    Where it lies, who owns it, whether it is sound, what waits.

    Exit code 1 if anything fails; warnings alone are 0.
    """
    check_store(store)
    if adopt_account:
        # Only the platform knows whose a token is, and only a start asks it.
        raise Problem(
            "a store changes hands at a start, which asks the platform whose the token is: start once with"
            f" `shardline telegram --store {store} --adopt-account`, in a program with"
            " `Telegram(…, adopt_account=True)`"
        )
    findings: list[Finding] = []
    for finding in examine(store, is_full=full):
        findings.append(finding)
        if not as_json:
            _show(finding)
    is_sound = all(finding.outcome is not Outcome.FAIL for finding in findings)
    if as_json:
        show_json(
            [
                {
                    "store": str(store),
                    "ok": is_sound,
                    "checks": [attrs.asdict(finding) for finding in findings],
                }
            ]
        )
    if not is_sound:
        sys.exit(ExitCode.FAILURE)


def examine(store: Path, *, is_full: bool) -> Iterator[Finding]:
    """All findings, one after another; a store that cannot be read is one of them."""
    yield from check_place(store)
    try:
        with Look(store, any_schema=True) as look:
            schema = look.meta.schema
            yield from check_versions(schema)
            yield from check_log(store)
            if schema == load_migrations()[-1].number:
                yield from _examine_rows(look)
            yield from check_content(look, is_full=is_full)
    except BusError as error:
        action = "" if "advised" in error.context else error.code.action
        yield Finding("store", Outcome.FAIL, str(error), action)
    except apsw.Error as error:
        yield Finding("store", Outcome.FAIL, f"{type(error).__name__}: {error}", "Restore a backup copy.")


def _examine_rows(look: Look) -> Iterator[Finding]:
    now = now_us()
    found = overview(look)
    yield from check_owner(found.owner, owner_line(found, now))
    yield from check_live(read_live(found, now), is_owned=found.owner.held == "yes")
    yield from check_clock(look, now)
    yield from check_decisions(found.outbox[OutboxState.UNCERTAIN], sum(one.count for one in found.dead))


def _show(finding: Finding) -> None:
    word = coloured(finding.outcome, {"ok": "green", "warn": "yellow", "fail": "red"}[finding.outcome])
    blanks = " " * (4 - len(finding.outcome))
    click.echo(f"{word}{blanks}  {finding.name:<11}  {safe_text(finding.text)}")
    if finding.action:
        echo_lines(f"                   {safe_text(finding.action)}")


__all__ = ["command", "examine"]
