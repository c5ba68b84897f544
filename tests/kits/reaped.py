"""Programs that tests start: none outlives its test, however that ends."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from subprocess import Popen
from typing import AnyStr


@contextmanager
def reaped(process: Popen[AnyStr]) -> Generator[Popen[AnyStr]]:
    """Kill a process at the end of the block, if it has not ended by then, and wait until it is gone.

    `with Popen(...)` alone waits for ever where the test has failed before it told the program to end.
    """
    with process:
        try:
            yield process
        finally:
            process.kill()
