"""Options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path

import click

MAX_LIMIT = 100_000

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
    "--offset", type=click.IntRange(min=0), default=0, help="Pass over so many rows."
)
after_option = click.option("--after", metavar="ID", help="Only what comes behind this row of the list.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
filters_argument = click.argument("filters", nargs=-1, metavar="[FIELD=VALUE]...")


__all__ = [
    "MAX_LIMIT",
    "after_option",
    "config_option",
    "filters_argument",
    "json_option",
    "limit_option",
    "offset_option",
    "store_option",
    "yes_option",
]
