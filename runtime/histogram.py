"""Durations in buckets: what a histogram of a metric is made of."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets, seconds; one more is for all that is longer."""


class Histogram:
    """Counts durations; a count costs a search among 13 bounds and two additions.

    Attributes:
        counts: Of each bucket, what is longer than all last; not added up.
        sum_s: Of all durations, seconds.
    """

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def observe(self, took_s: float) -> None:
        """Count one duration, seconds."""
        self.counts[bisect_left(BOUNDS_S, took_s)] += 1
        self.sum_s += took_s


__all__ = ["BOUNDS_S", "Histogram"]
