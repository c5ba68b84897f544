"""Runs an async test without a test framework."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio
import trio.testing

from ...actors.errors import BusError, Code
from ...actors.given import shown
from ...runtime.argument_checks import check_callable

T = TypeVar("T")


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run `main` on a clock that jumps over every wait, and return what it returns.

    Raises:
        BusError: INVALID_MESSAGE, `main` is no async function.
    """
    check_callable(main, "main", "an async function")

    async def run_main() -> T:
        begun = main()
        if not inspect.isawaitable(begun):
            raise BusError(
                Code.INVALID_MESSAGE, f"main must be an async function, not {shown(main)}", field="main"
            )
        return await begun

    return trio.run(run_main, clock=trio.testing.MockClock(autojump_threshold=0))
