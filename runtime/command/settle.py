"""`shardline outbox resolve` and `cancel`: a person decides over a send."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from ..control.verbs import Cancel, Decision, Resolve, RowRef
from ..exit_code import ExitCode
from .confirm import confirm
from .deciding import Asking, answer, decide, deciding
from .detail import rows_of
from .looking import looking
from .options import TEXT, json_option, store_option, yes_option
from .problem import Problem

_SAID: dict[Decision, str] = {
    "sent": "is settled as sent",
    "resend": "is on its way again",
    "dead": "is given up",
}


@click.command("resolve")
@click.argument("key", type=TEXT)
@click.option("--sent", is_flag=True, help="The channel has it.")
@click.option("--resend", is_flag=True, help="It does not: send it again, at the tail.")
@click.option("--dead", is_flag=True, help="It no longer matters: give it up.")
@store_option
@yes_option
@deciding
@json_option
def resolve(
    key: str,
    sent: bool,
    resend: bool,
    dead: bool,
    store: Path,
    yes: bool,
    actor: str | None,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Decide over an uncertain send.

    Look into the chat first. KEY is its id (out-7) or its idempotency key.
    """
    decision = _decision({"sent": sent, "resend": resend, "dead": dead})
    row = _one(store, key)
    confirm(f"settle {row} as {decision}?", yes=yes)
    asking = Asking(store=store, actor=actor, timeout_s=timeout_s, as_json=as_json)
    answer(asking, decide(asking, Resolve(row, decision)), f"{row} {_SAID[decision]}")


@click.command("cancel")
@click.argument("key", type=TEXT)
@click.option("--reason", type=TEXT, default="cancelled", show_default=True, help="Kept with the row.")
@store_option
@yes_option
@deciding
@json_option
def cancel(
    key: str, reason: str, store: Path, yes: bool, actor: str | None, timeout_s: float, as_json: bool
) -> None:
    """Take back a send that waits.

    KEY is its id (out-7) or its idempotency key.
    """
    row = _one(store, key)
    confirm(f"take {row} back?", yes=yes)
    asking = Asking(store=store, actor=actor, timeout_s=timeout_s, as_json=as_json)
    answer(asking, decide(asking, Cancel(row, reason)), f"{row} is taken back")


def _decision(said: Mapping[Decision, bool]) -> Decision:
    found: list[Decision] = [decision for decision, is_said in said.items() if is_said]
    if len(found) != 1:
        raise Problem("say what you found: one of --sent, --resend and --dead")
    return found[0]


def _one(store: Path, key: str) -> RowRef:
    with looking(store) as look:
        rows = rows_of(look, key)
    if not rows:
        raise Problem(f"there is no send {key}", ExitCode.FAILURE)
    if len(rows) > 1:
        named = ", ".join(f"id={row}" for row in rows)
        raise Problem(f"{key} may be any of {named}: write one of these in its place")
    return RowRef(rows[0].kind, rows[0].number)


__all__ = ["cancel", "resolve"]
