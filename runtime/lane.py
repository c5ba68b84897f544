"""One conversation's run-time queue. What moves it: `lanes.py`."""

from __future__ import annotations

from collections import deque
from typing import Generic

from .lane_row import Row


class Lane(Generic[Row]):
    """One conversation's queue.

    Attributes:
        busy: A row of it is at work, or its end is not durable yet.
        waiting: It stands in line for a slot.
        more: Open rows beyond the queue are, or may be, on disk.
        due_us: When its back-off ends; None outside one.
        waited: Its head has sat out its back-off, whatever the wall clock says.
        last_seq: The highest seq ever taken into memory.
        arriving: Accepts handed to the journal and not settled.
        paused: No page may be read: a row is stored as claimed that the lane has not taken.
        tokens: Tokens its rows hold, arriving ones included.
        beyond: Open rows on disk beyond `last_seq`; None while nobody has counted them.
        counted_seq: Rows up to here are in `beyond` already, whether the lane was told of them or not.
        is_full: It was found full, and that was told.
        memo: What its owner remembers of the conversation while the lane is warm.
        is_heavy: That memo is too much to be kept while the lane is idle.
    """

    __slots__ = (
        "arriving",
        "beyond",
        "busy",
        "counted_seq",
        "due_us",
        "is_full",
        "is_heavy",
        "key",
        "last_seq",
        "memo",
        "more",
        "paused",
        "queue",
        "tokens",
        "waited",
        "waiting",
    )

    def __init__(self, key: str) -> None:
        self.key = key
        self.queue: deque[Row] = deque()
        self.busy = False
        self.waiting = False
        self.waited = False
        self.more = False
        self.paused = False
        self.due_us: int | None = None
        self.last_seq = 0
        self.arriving = 0
        self.tokens = 0
        self.beyond: int | None = 0
        self.counted_seq = 0
        self.is_full = False
        self.memo: object = None
        self.is_heavy = False

    @property
    def is_idle(self) -> bool:
        """Nothing queued, at work, on its way or on disk."""
        return not (
            self.queue or self.busy or self.more or self.arriving or self.waiting or self.due_us is not None
        )

    @property
    def is_on_disk(self) -> bool:
        """All it has is on disk, and nobody holds on to it."""
        return self.more and not (
            self.queue or self.busy or self.arriving or self.waiting or self.due_us is not None
        )

    @property
    def waiting_rows(self) -> int:
        """Open rows that are not at work, those on their way included; `beyond` has to be known."""
        return self.arriving - self.paused + len(self.queue) + (self.beyond or 0)

    @property
    def has_older(self) -> bool:
        """Rows wait that came before the one that was stored just now."""
        return bool(self.queue) or self.more

    @property
    def is_ready(self) -> bool:
        """Its head may ask for a slot now."""
        return bool(self.queue) and not self.busy and not self.waiting and self.due_us is None
