"""How a command ends badly: one line on standard error, and an exit code."""

from __future__ import annotations

import click

from ..exit_code import ExitCode
from .safe_text import safe_text


class Problem(Exception):
    """Ends a command.

    Args:
        text: What is wrong and what to do, in one line.
        code: What it ends with.
    """

    def __init__(self, text: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(text)
        self.text = text
        self.code = code

    def show(self) -> None:
        """Print the line."""
        click.echo(f"shardline: {safe_text(self.text)}", err=True)


__all__ = ["Problem"]
