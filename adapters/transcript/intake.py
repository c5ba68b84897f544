"""Hands the lines of one segment to the edge: many conversations at once, each strictly in its order.

`edge.accept` returns after the commit, and two accepts of one conversation under way at once could change places, so a
line waits until the one before it in its conversation is settled. What is read and not yet settled is bounded, in
lines and in characters.
"""

from __future__ import annotations

from collections import deque

import attrs
import trio

from ...actors.errors import BusError
from ...runtime.channel import Edge, Inbound
from .position import Position, Watermark
from .reader import BadLine, ChatLine

WORKERS = 256
"""Accepts under way at once."""
WINDOW_LINES = 512
WINDOW_CHARS = 8 << 20
FACT = "position"
"""Under this key the position is stored, with every so many lines."""
FACT_EVERY_LINES = 32


@attrs.define
class Tally:
    """How far a log is read and answered; all numbers are lines.

    Attributes:
        total: In the log.
        known: Settled by earlier runs and not read again; `known_bad` of them were bad.
        settled: Known, answered by the edge, or bad. What is neither accepted nor bad among them was a duplicate, or
            was refused by the edge.
        accepted: New in the store through this adapter.
        bad: Bad lines, known or met in this run.
        first_bad: The first few of this run.
        sent: Of the sink, written by this run.
    """

    total: int = 0
    known: int = 0
    known_bad: int = 0
    settled: int = 0
    accepted: int = 0
    bad: int = 0
    first_bad: list[BadLine] = attrs.field(factory=list[BadLine])
    sent: int = 0


@attrs.frozen
class _Item:
    place: int
    line: ChatLine


def inbound_of(line: ChatLine) -> Inbound:
    """The message that a line is."""
    return Inbound(
        platform_message_id=f"{line.conversation}:{line.seq}",
        address=line.conversation,
        text=line.text,
        sender=line.sender,
        sent_at=f"2000-01-01T{line.at}:00Z",
    )


class Intake:
    """The accepts of one segment: `work` runs in `WORKERS` tasks; another calls `put` for each line, then `end`."""

    def __init__(self, edge: Edge, begin: Position, mark: Watermark, tally: Tally) -> None:
        self.failed: BusError | None = None
        """Why the workers gave up."""
        self._edge = edge
        self._begin = begin
        self._mark = mark
        self._tally = tally
        self._stored_low = mark.low
        self._is_storing = False
        self._ready: deque[_Item] = deque()
        # A conversation is a key while one of its lines is ready or under way; the value waits behind it.
        self._behind: dict[str, deque[_Item]] = {}
        self._lines = 0
        self._chars = 0
        self._ended = False
        self._idle = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    async def put(self, place: int, line: ChatLine) -> None:
        """Take a line over; waits while there is no room."""
        while self._lines >= WINDOW_LINES or self._chars >= WINDOW_CHARS:
            await self._room.park()
        self._lines += 1
        self._chars += len(line.text)
        item = _Item(place, line)
        behind = self._behind.get(line.conversation)
        if behind is not None:
            behind.append(item)
            return
        self._behind[line.conversation] = deque()
        self._ready.append(item)
        self._idle.unpark()

    def end(self) -> None:
        """Nothing more comes: the workers return when all is settled."""
        self._ended = True
        self._idle.unpark_all()

    async def work(self, all_workers: trio.CancelScope) -> None:
        """Accept until the end; a refusal of the bus is kept in `failed` and ends all workers."""
        try:
            while True:
                while not self._ready:
                    if self._ended:
                        return
                    await self._idle.park()
                item = self._ready.popleft()
                facts = self._facts()
                stored = await self._edge.accept(inbound_of(item.line), facts=facts)
                self._is_storing = self._is_storing and facts is None
                self._settle(item)
                self._tally.accepted += stored is not None
        except BusError as error:
            self.failed = self.failed or error
            all_workers.cancel()

    def _facts(self) -> dict[str, str] | None:
        mark = self._mark
        # Of two under way the older one might be stored last.
        if self._is_storing or mark.low < self._stored_low + FACT_EVERY_LINES:
            return None
        self._is_storing = True
        self._stored_low = mark.low
        return {FACT: attrs.evolve(self._begin, low=mark.low, bad=mark.bad).to_fact()}

    def _settle(self, item: _Item) -> None:
        self._tally.settled += 1
        self._mark.settle(item.place)
        self._lines -= 1
        self._chars -= len(item.line.text)
        if self._lines <= WINDOW_LINES // 2 and self._chars < WINDOW_CHARS:
            self._room.unpark()
        behind = self._behind[item.line.conversation]
        if behind:
            # Whoever settled the line before goes on with it, so nobody need be woken.
            self._ready.append(behind.popleft())
        else:
            del self._behind[item.line.conversation]


__all__ = [
    "FACT",
    "FACT_EVERY_LINES",
    "WINDOW_CHARS",
    "WINDOW_LINES",
    "WORKERS",
    "Intake",
    "Tally",
    "inbound_of",
]
