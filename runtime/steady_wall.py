"""A wall clock that is not believed at once when it is set forward: what it says would delete what is young."""

from __future__ import annotations

from collections import deque
from math import floor

from ..actors.clock import Clock


class SteadyWall:
    """The wall clock as a lower bound, by what it said beside the monotonic clock within the last `window_s`.

    Whatever was stored before the clock was set forward is at least as old as that is ago, so with a window as long as
    what is kept the clock is believed again as soon as nothing younger can be taken for older.

    Args:
        clock: Both clocks.
        window_s: Seconds, > 0.
    """

    def __init__(self, clock: Clock, window_s: float) -> None:
        self._clock = clock
        self._window_s = window_s
        # When a difference of wall and monotonic clock, in whole seconds, was last seen; both grow from left to right.
        self._seen: deque[tuple[float, int]] = deque()

    def now_us(self) -> int:
        """Look at the clocks. Microseconds since 1970 UTC: no later than the wall clock says."""
        wall_us, mono_s = self._clock.wall_us(), self._clock.mono_s()
        ahead_s = floor(wall_us / 1_000_000 - mono_s)
        while self._seen and self._seen[-1][1] >= ahead_s:
            self._seen.pop()
        self._seen.append((mono_s, ahead_s))
        while mono_s - self._seen[0][0] > self._window_s:
            self._seen.popleft()
        return wall_us - (ahead_s - self._seen[0][1]) * 1_000_000


__all__ = ["SteadyWall"]
