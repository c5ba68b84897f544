"""Where a run stands in its log, so that the next one goes on there: pure.

The log is read in *segments*, one after another. A segment is what stood in the file when a run began and was not yet
known; its lines have a fixed reading order. A position says: of the file's first `end` bytes, known by their digest,
everything before `start` is accepted, and the first `low` lines, in reading order, of `start` … `end`. It is stored in
the same commit as a message that came after those lines, so it is true after any crash. Lines past it may be accepted
too; they are offered again and found to be duplicates. A file that only grew keeps its position and gets one more
segment; any other file starts from the front.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import attrs

from ...actors.errors import BusError
from ...actors.strict_json import dumps, loads


@attrs.frozen(kw_only=True)
class Position:
    """A place in a log; bytes and lines are those of the unpacked file.

    Attributes:
        as_is: Whether the reading order is the file's own.
        digest: Of the first `end` bytes.
        bad: Bad lines among the `low` and before `start`.
    """

    as_is: bool
    start: int
    end: int
    digest: str
    low: int
    bad: int

    def to_fact(self) -> str:
        """The stored form."""
        return dumps(attrs.asdict(self), sort_keys=True)


def position_from_fact(fact: str | None) -> Position | None:
    """Read a stored position; None if there is none or it is of another form."""
    if fact is None:
        return None
    try:
        value = loads(fact)
    except BusError:
        return None
    match value:
        case {
            "as_is": bool(as_is),
            "start": int(start),
            "end": int(end),
            "digest": str(digest),
            "low": int(low),
            "bad": int(bad),
        } if 0 <= start <= end and 0 <= bad <= low:
            return Position(as_is=as_is, start=start, end=end, digest=digest, low=low, bad=bad)
        case _:
            return None


@attrs.define
class Watermark:
    """How far everything is settled: `low` lines in reading order; each bad one among them adds to `bad`."""

    low: int = 0
    bad: int = 0
    _settled: dict[int, bool] = attrs.field(factory=dict[int, bool])

    def settle(self, place: int, *, bad: bool = False) -> None:
        """Note that the line at this place of the reading order needs no more work."""
        self._settled[place] = bad
        while (was_bad := self._settled.pop(self.low, None)) is not None:
            self.low += 1
            self.bad += was_bad


def round_robin(lanes: Sequence[Sequence[int]]) -> Iterator[int]:
    """One line of each conversation in turn, each conversation in its own order, until all have ended."""
    live = deque(iter(lane) for lane in lanes)
    while live:
        lane = live.popleft()
        for line in lane:
            live.append(lane)
            yield line
            break


__all__ = ["Position", "Watermark", "position_from_fact", "round_robin"]
