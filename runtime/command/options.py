"""Options that several commands share, each declared once."""

from __future__ import annotations

import math
from pathlib import Path

import click

from ...actors.text import has_lone_surrogate
from .arguments import shown
from .problem import Problem

MAX_LIMIT = 100_000
MAX_OFFSET = 2**62
"""What every database can count to."""


class Text(click.ParamType[str]):
    """Text that can be stored: an argument's bytes may be anything."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check it.

        Raises:
            Problem: exit code 2, it is no UTF-8.
        """
        if has_lone_surrogate(value):
            what = param.opts[0] if isinstance(param, click.Option) else "the argument"
            raise Problem(f"{what} {value[:40]!r} is no UTF-8")
        return value


class Seconds(click.FloatRange):
    """A length of time: a range lets what is no number pass."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Check it; a number that is none is refused as one out of range is."""
        if math.isnan(float(super().convert(value, param, ctx))):
            self.fail(f"{shown(str(value))} is no length of time", param, ctx)
        return float(value)


TEXT = Text()

store_option = click.option(
    "--store",
    type=click.Path(path_type=Path),
    required=True,
    envvar="SHARDLINE_STORE",
    show_envvar=True,
    help="The store's file.",
)
config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar="SHARDLINE_CONFIG",
    show_envvar=True,
    help="A TOML file with settings.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="For programs: one JSON object, or one a line for a list."
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(1, MAX_LIMIT),
    default=100,
    show_default=True,
    help="At most so many rows.",
)
offset_option = click.option(
    "--offset", type=click.IntRange(0, MAX_OFFSET), default=0, help="Pass over so many rows."
)
after_option = click.option(
    "--after", type=TEXT, metavar="ID", help="Only what comes behind this row of the list."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
filters_argument = click.argument("filters", type=TEXT, nargs=-1, metavar="[FIELD=VALUE]...")


__all__ = [
    "MAX_LIMIT",
    "MAX_OFFSET",
    "TEXT",
    "Seconds",
    "Text",
    "after_option",
    "config_option",
    "filters_argument",
    "json_option",
    "limit_option",
    "offset_option",
    "store_option",
    "yes_option",
]
