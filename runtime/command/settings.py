"""`shardline settings`: what holds for a run in this environment, and where it comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from ...actors.errors import BusError
from ..settings import Effective, Value, load_settings
from .options import config_option, json_option
from .output import show_json, show_table
from .problem import Problem


@click.command("settings")
@config_option
@json_option
def command(config: Path | None, as_json: bool) -> None:
    """Show the settings of a run, and where each comes from.

    An argument of `shardline run` goes before the environment, the environment before the file.
    """
    found = chosen_settings({}, config)
    if as_json:
        show_json(
            {
                "name": one.setting.name, "value": one.value, "source": one.source,
                "variable": one.setting.variable, "allowed": one.setting.allowed,
            }
            for one in found.values()
        )  # fmt: skip
        return
    show_table(
        ("name", "value", "from", "allowed"),
        [(one.setting.name, str(one.value), one.source, one.setting.allowed) for one in found.values()],
    )


def chosen_settings(arguments: Mapping[str, Value | None], config: Path | None) -> dict[str, Effective]:
    """The settings of this process.

    Raises:
        Problem: exit code 2, a value is not allowed.
    """
    try:
        return load_settings(arguments, os.environ, config=config)
    except BusError as error:
        raise Problem(error.message) from error


__all__ = ["chosen_settings", "command"]
