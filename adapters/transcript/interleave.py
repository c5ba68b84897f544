"""The order in which a log is read: its conversations in turn, or as it stands; and where to begin.

Round robin needs to know where each conversation's next line is, so it works on the index of the whole file (see
`ChatLog`): memory grows with the number of lines, about 16 bytes each, not with their length.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

import attrs

from .position import Position, round_robin
from .reader import ChatLog


@attrs.frozen(kw_only=True)
class Segment:
    """A stretch of the log with a reading order of its own.

    Attributes:
        first, last: Its lines are those with index `first` … `last` - 1.
        begin: Where to begin in it; one that was begun before has `low` > 0.
    """

    first: int
    last: int
    begin: Position

    @property
    def lines(self) -> int:
        return self.last - self.first


def plan(log: ChatLog, stored: Position | None, *, as_is: bool) -> list[Segment]:
    """Decide what is to be read, in which segments.

    Args:
        log: Opened with `prefix_bytes` of the stored position.
        stored: Where the run before stood.
        as_is: The order asked for now.
    Returns:
        One segment for a log that is new or as it was, two for one that grew; never empty.
    """
    fits = stored is not None and stored.as_is == as_is and stored.digest == log.prefix_digest
    if not fits or stored is None:
        return [_segment(log, 0, log.lines, as_is=as_is, digest=log.digest)]
    first, last = bisect_left(log.starts, stored.start), bisect_left(log.starts, stored.end)
    if log.starts[first] != stored.start or stored.low > last - first:
        return [_segment(log, 0, log.lines, as_is=as_is, digest=log.digest)]
    begun = Segment(first=first, last=last, begin=stored)
    if last == log.lines:
        return [begun]
    return [begun, _segment(log, last, log.lines, as_is=as_is, digest=log.digest)]


def _segment(log: ChatLog, first: int, last: int, *, as_is: bool, digest: str) -> Segment:
    start, end = log.starts[first], log.starts[last]
    begin = Position(as_is=as_is, start=start, end=end, digest=digest, low=0, bad=0)
    return Segment(first=first, last=last, begin=begin)


def reading_order(log: ChatLog, segment: Segment) -> Iterator[int]:
    """The indexes of a segment's lines, from where it was left on."""
    if segment.begin.as_is:
        return iter(range(segment.first + segment.begin.low, segment.last))
    lanes = (_between(lane, segment.first, segment.last) for lane in log.lanes)
    order = round_robin([lane for lane in lanes if lane])
    return islice(order, segment.begin.low, None)


def _between(lane: array[int], first: int, last: int) -> array[int]:
    if lane[0] >= first and lane[-1] < last:
        return lane
    return lane[bisect_left(lane, first) : bisect_left(lane, last)]


__all__ = ["Segment", "plan", "reading_order"]
