"""How the changing commands work: one decision handed to the owner of the store, and what became of it."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import attrs
import click

from ..control.client import TIMEOUT_S, send_control
from ..control.execute import ControlResult
from ..control.verbs import Verb
from ..logs import set_up_logs
from ..run import ExitCode
from .looking import store_problems
from .output import json_line
from .paths import check_store
from .problem import Problem
from .safe_text import safe_text

F = TypeVar("F", bound=Callable[..., object])


@attrs.frozen(kw_only=True)
class Asking:
    """Who decides over which store, and how the answer is shown."""

    store: Path
    actor: str | None
    timeout_s: float
    as_json: bool


def deciding(command: F) -> F:
    """Give a command the options of a decision: `--actor` and `--timeout`."""
    actor = click.option("--actor", help="Who decides, for the record; the login name by default.")
    timeout = click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0, 3_600),
        default=TIMEOUT_S,
        show_default=True,
        help="Seconds to wait for the owner of the store.",
    )
    return actor(timeout(command))


def decide(asking: Asking, verb: Verb) -> ControlResult:
    """Hand one decision over and wait for its end.

    Raises:
        Problem: exit code 2, the path cannot be one of a store; 1, the store cannot be used.
    """
    check_store(asking.store)
    set_up_logs(style="lines")
    with store_problems(asking.store):
        return send_control(
            asking.store, verb, actor=asking.actor or login_name(), timeout_s=asking.timeout_s
        )


def answer(asking: Asking, result: ControlResult, said: str) -> None:
    """Show what became of a decision.

    Args:
        said: For people, where it is done.
    Raises:
        Problem: exit code 1, it was refused; 4, nobody has carried it out yet.
    """
    if asking.as_json:
        click.echo(json_line(result_record(result)))
    elif result.status == "done":
        click.echo(safe_text(said))
    raise_unless_done(result)


def raise_unless_done(result: ControlResult) -> None:
    """End a command as its decision ended.

    Raises:
        Problem: exit code 1, it was refused; 4, nobody has carried it out yet.
    """
    if result.status == "waiting":
        raise Problem(
            f"the owner has not carried it out yet; it will: `shardline control show {result.id}` tells",
            ExitCode.NOT_YET_DONE,
        )
    if result.status == "refused":
        raise Problem(f"{result.code}: {said_of(result, 'text')}", ExitCode.FAILURE)


def result_record(result: ControlResult) -> dict[str, object]:
    """A result as programs get it."""
    return {
        "id": result.id, "verb": result.verb, "status": result.status, "code": result.code, **result.values,
    }  # fmt: skip


def said_of(result: ControlResult, name: str) -> str:
    """One value of a result, for people."""
    return str(result.values.get(name, ""))


def login_name() -> str:
    """Who runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


__all__ = [
    "Asking",
    "answer",
    "decide",
    "deciding",
    "login_name",
    "raise_unless_done",
    "result_record",
    "said_of",
]
