"""A group whose list of commands is read to the end of each line, however narrow the terminal is."""

from __future__ import annotations

import click

_WHOLE = 10_000
"""Columns that no first sentence of a help has."""


class Group(click.Group):
    """click cuts what a command does where its line ends; here it goes on in the next one."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and what each does."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in commands
            if command is not None and not command.hidden
        ]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


__all__ = ["Group"]
