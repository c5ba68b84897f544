"""What a broadcast may take of a channel at once, so that answers to people find room.

A bulk send asks for a place before its start is committed and gives it back once that is on disk. While answers leave,
a broadcast starts in short bursts: a few sends, and when their starts are on disk a rest as long as that took. So it
keeps the process busy for half of the time at most, and less of it the busier the process is; an answer meets one short
burst on its way. A broadcast also leaves a part of the bot's bucket to answers. Interactive sends ask nobody here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs
import trio

from .defaults import BULK_BUCKET, BULK_BURST, BULK_CALM_S, BULK_GATHER_S, BULK_SLOTS
from .rates import Rate


class StartShare:
    """Places for bulk sends whose start is not on disk yet: short bursts while answers are under way, else all.

    Args:
        slots: Of the channel, > 0.
        freed: Called when a place came back.
    """

    def __init__(self, slots: int, freed: Callable[[], None]) -> None:
        self._few = max(1, min(BULK_BURST, int(slots * BULK_SLOTS)))
        self._all = slots
        self._taken = 0
        self._left = self._few
        self._begun_s = -math.inf
        self._rested_s = -math.inf
        self._freed = freed
        self.answered_s = -math.inf
        """When the last interactive send left, seconds of trio's clock: for a moment a broadcast is held back."""

    @property
    def has_room(self) -> bool:
        """Whether one more may start."""
        now_s = trio.current_time()
        if now_s - self.answered_s > BULK_CALM_S:
            return self._taken < self._all
        return self._left > 0 and now_s >= self._rested_s

    def rest_s(self, now_s: float) -> float:
        """How long the rest after the last burst still takes, seconds; 0 outside one."""
        return max(0.0, self._rested_s - now_s)

    def take(self) -> None:
        """Take a place; there is room."""
        if not self._taken:
            self._begun_s = trio.current_time()
        self._taken += 1
        self._left -= 1

    def give_back(self) -> None:
        """The start is on disk, or nothing came of it."""
        self._taken -= 1
        if not self._taken:
            now_s = trio.current_time()
            # A store that takes nothing for a while is no reason to rest as long.
            self._rested_s = now_s + min(BULK_CALM_S, now_s - self._begun_s)
            self._left = self._few
        self._freed()


def bulk_rate(rate: Rate | None) -> Rate | None:
    """The bot's rate as bulk sends see it: a part of the bucket is left to answers."""
    return (
        None if rate is None else attrs.evolve(rate, burst=max(1, rate.burst - int(rate.burst * BULK_BUCKET)))
    )


def bulk_quantum_s(rate: Rate | None) -> float:
    """How long bulk sends may gather for one wake-up without losing any of their rate, seconds."""
    return 0.0 if rate is None else min(BULK_GATHER_S, (rate.burst - 1) / rate.per_s)


__all__ = ["StartShare", "bulk_quantum_s", "bulk_rate"]
