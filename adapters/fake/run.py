"""Runs an async test without a test framework."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
import trio.testing

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` on a clock that jumps over every wait, and return what it returns."""
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
