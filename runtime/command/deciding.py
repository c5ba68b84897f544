"""How the changing commands work: one decision handed to the owner of the store, and what became of it."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import attrs
import click

from ...actors.errors import BusError, Code
from ...actors.identifiers import new_uuid7
from ...actors.names import WHITE_SPACE, canonical
from ...actors.text import clean_text
from ..control.client import TIMEOUT_S, find_control, send_controls
from ..control.execute import ControlResult
from ..control.verbs import Verb, verb_word
from ..exit_code import ExitCode
from ..logs import set_up_logs
from .looking import store_problems
from .options import TEXT, Seconds
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
    actor = click.option("--actor", type=TEXT, help="Who decides, for the record; the login name by default.")
    timeout = click.option(
        "--timeout",
        "timeout_s",
        type=Seconds(0, 3_600),
        default=TIMEOUT_S,
        show_default=True,
        help="Seconds to wait for the owner of the store.",
    )
    return actor(timeout(command))


def decide(asking: Asking, verb: Verb) -> ControlResult:
    """Hand one decision over and wait for its end.

    Raises:
        Problem: exit code 2, the path cannot be one of a store, or no name is one; 1, the store cannot be used.
    """
    return hand_over(asking, {new_uuid7(): verb})[0]


def hand_over(asking: Asking, asked: Mapping[str, Verb]) -> list[ControlResult]:
    """Hand decisions over, all or none, and wait for their ends; who gives up waiting gets what stands.

    Args:
        asked: By their ids; one that stands already is waited for.
    Raises:
        Problem: as `decide`.
        KeyboardInterrupt: before they stood.
    """
    check_store(asking.store)
    actor = actor_of(asking)
    # Whatever goes wrong is told in one line, by the result.
    set_up_logs(style="none")
    with store_problems(asking.store):
        try:
            return send_controls(asking.store, asked, actor=actor, timeout_s=asking.timeout_s)
        except KeyboardInterrupt:
            return [_standing(asking.store, control_id, verb) for control_id, verb in asked.items()]


def _standing(store: Path, control_id: str, verb: Verb) -> ControlResult:
    try:
        return find_control(store, control_id)
    except BusError as error:
        if error.code is Code.NOT_FOUND:
            raise KeyboardInterrupt from None
        # It may stand: to say that it failed could have somebody ask twice.
        return ControlResult(control_id, verb_word(verb), "waiting", str(error.code), {"text": error.message})


def actor_of(asking: Asking) -> str:
    """Who decides.

    Raises:
        Problem: exit code 2, this is no name.
    """
    if asking.actor is None:
        return login_name()
    try:
        return canonical(asking.actor, "--actor")
    except BusError as error:
        raise Problem(error.message) from error


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
        raise Problem(still_waiting([result]), ExitCode.NOT_YET_DONE)
    if result.status == "refused":
        raise Problem(f"{result.code}: {said_of(result, 'text')}", ExitCode.FAILURE)


def still_waiting(results: Sequence[ControlResult]) -> str:
    """What to say of decisions that stand and are not carried out yet: why, and where to ask."""
    first = results[0]
    why = "" if first.code is None else f"{first.code}: {said_of(first, 'text')}; "
    ask = ", ".join(f"`shardline control show {result.id}`" for result in results)
    return f"{why}it waits, and the store's owner will carry it out: {ask} tells"


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
        name = getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
    return clean_text(name).strip(WHITE_SPACE) or "unknown"


__all__ = [
    "Asking",
    "actor_of",
    "answer",
    "decide",
    "deciding",
    "hand_over",
    "login_name",
    "raise_unless_done",
    "result_record",
    "said_of",
    "still_waiting",
]
