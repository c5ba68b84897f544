"""What a broadcast may take of a channel at once, so that answers to people find room.

A bulk send asks for a place before its start is committed and gives it back once that is on disk. While answers leave
there are few places: a commit has few bulk starts and stays short, and a broadcast goes only as fast as commits come
back. It also leaves a part of the bot's bucket to answers. Interactive sends ask nobody here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import attrs
import trio

from .rates import Rate

_QUANTUM_S: Final = 0.005
_CALM_S: Final = 0.25


class StartShare:
    """Places for bulk sends whose start is not on disk yet: few while answers are under way, else all.

    Args:
        slots: Of the channel, > 0.
        freed: Called when a place came back.
    """

    def __init__(self, slots: int, freed: Callable[[], None]) -> None:
        self._few = max(1, slots // 8)
        self._all = slots
        self._taken = 0
        self._freed = freed
        self.answered_s = -math.inf
        """When the last interactive send left, seconds of trio's clock: for a moment a broadcast is held back."""

    @property
    def has_room(self) -> bool:
        """Whether one more may start."""
        return self._taken < self._few or (
            self._taken < self._all and trio.current_time() - self.answered_s > _CALM_S
        )

    def take(self) -> None:
        """Take a place; there is room."""
        self._taken += 1

    def give_back(self) -> None:
        """The start is on disk, or nothing came of it."""
        self._taken -= 1
        self._freed()


def bulk_rate(rate: Rate | None) -> Rate | None:
    """The bot's rate as bulk sends see it: a quarter of the bucket is left to answers."""
    return None if rate is None else attrs.evolve(rate, burst=max(1, rate.burst - rate.burst // 4))


def bulk_quantum_s(rate: Rate | None) -> float:
    """How long bulk sends may gather for one wake-up without losing any of their rate, seconds."""
    return 0.0 if rate is None else min(_QUANTUM_S, (rate.burst - 1) / rate.per_s)


__all__ = ["StartShare", "bulk_quantum_s", "bulk_rate"]
