"""A store under a command's eyes, and what each way it cannot be read means."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ...actors.errors import BusError, Code
from ...storage.sqlite.look import Look
from ..exit_code import ExitCode
from .paths import check_store
from .problem import Problem

_SAYS_IT_ALL = frozenset({Code.STORE_MISMATCH, Code.NOT_FOUND})
"""Codes whose message names what to do."""


@contextmanager
def looking(store: Path, *, any_schema: bool = False) -> Generator[Look]:
    """Look at a store while the block runs.

    Raises:
        Problem: exit code 2, the path cannot be one of a store; 1, the store cannot be read.
    """
    check_store(store)
    with store_problems(store), Look(store, any_schema=any_schema) as look:
        yield look


@contextmanager
def store_problems(store: Path) -> Generator[None]:
    """Turn the block's typed errors into one line each.

    Raises:
        Problem: exit code 1.
    """
    try:
        yield
    except BusError as error:
        action = "" if error.code in _SAYS_IT_ALL or "advised" in error.context else f". {error.code.action}"
        raise Problem(f"{store}: {error}{action}", ExitCode.FAILURE) from error


__all__ = ["looking", "store_problems"]
