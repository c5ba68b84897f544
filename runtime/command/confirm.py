"""Asks before something is changed that cannot be changed back."""

from __future__ import annotations

import sys

import click

from ..exit_code import ExitCode
from .problem import Problem
from .safe_text import safe_text


def confirm(question: str, *, yes: bool) -> None:
    """Ask a person, unless `--yes` was given.

    Raises:
        Problem: exit code 2, nobody is there to ask; 1, the answer was no. Nothing was changed.
    """
    if yes:
        return
    # None: standard input is closed.
    if sys.stdin is None or not sys.stdin.isatty():
        raise Problem(f"{question} without a terminal say --yes; nothing was changed")
    if not click.confirm(safe_text(question), err=True):
        raise Problem("nothing was changed", ExitCode.FAILURE)


__all__ = ["confirm"]
