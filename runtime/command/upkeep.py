"""Options of `shardline run` for what goes on beside the bot: what is kept how long, and who may watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import click

from ..defaults import DEDUPE_HORIZON_S, HISTORY_S, RETENTION_S
from ..settings import METRICS_TOKEN
from .options import TEXT, Seconds

Command = TypeVar("Command", bound=Callable[..., object])

_DAY_S: Final = 86_400
_LONGEST_S: Final = 9_999_999_999


def _days(seconds: float) -> str:
    return f"{seconds / _DAY_S:g} days"


_OPTIONS: Final = (
    click.option(
        "--retention-s",
        type=Seconds(1, _LONGEST_S),
        help=f"Seconds that messages and sends are kept once they have ended; {_days(RETENTION_S)}.",
    ),
    click.option(
        "--dedupe-horizon-s",
        type=Seconds(1, _LONGEST_S),
        help=f"Seconds that a repeat of one of them is known as one, at least; {_days(DEDUPE_HORIZON_S)}.",
    ),
    click.option(
        "--history-s",
        type=Seconds(1, _LONGEST_S),
        help=f"Seconds that the history is kept; {_days(HISTORY_S)}.",
    ),
    click.option(
        "--metrics-port",
        type=click.IntRange(0, 65_535),
        help="Serve metrics and health over HTTP on this port of 127.0.0.1; 0, the default, serves nothing.",
    ),
    click.option(
        "--metrics-access",
        type=click.Choice(["token", "open"]),
        help="token (the default): whoever reads them needs the token; open: nobody is asked.",
    ),
    click.option(
        "--metrics-token-env",
        type=TEXT,
        metavar="VARIABLE",
        default=METRICS_TOKEN,
        show_default=True,
        help="The environment variable that holds the token.",
    ),
)


def upkeep_options(command: Command) -> Command:
    """Declare them on a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


__all__ = ["upkeep_options"]
