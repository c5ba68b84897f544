"""How a command ends. A module of its own, so that a command loads no bot to name its end."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's end means."""

    CLEAN = 0
    FAILURE = 1
    USAGE = 2
    CANCELLED_WORK = 3
    NOT_YET_DONE = 4


__all__ = ["ExitCode"]
