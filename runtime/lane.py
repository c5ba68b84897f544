"""Lanes: the run-time queues of one shard, one per conversation, over a backlog that stays on disk.

The same rules serve inbound messages and sends. Everything here is synchronous and free of I/O apart from the two
reads of `Backlog`, which see committed rows only.

- A lane holds rows in `seq` order. At most one of them is at work (`busy`); the next waits for its end to be durable.
- Memory is a window. A row that does not fit stays on disk: its lane is marked `more`, and from then on the lane is
  fed from disk until a page comes back short. That keeps order without remembering what was left out.
- A fresh row may go straight to its lane only if no older open row of the conversation can be on disk unseen
  (`knows_all`). At start and after an overflow a scan walks the conversations in key order; what it has not passed
  yet is left to it.
- A lane in back-off holds its head and nothing else. An idle lane is kept warm in a bounded list, or costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, Protocol, TypeVar

_READS_AT_ONCE = 64


class LaneRow(Protocol):
    """What a lane needs to know of a row."""

    @property
    def seq(self) -> int: ...
    @property
    def holds_token(self) -> bool:
        """Whether the row is paid for by a token; all others count into the window."""
        ...


Row = TypeVar("Row", bound=LaneRow)


class Backlog(Protocol[Row]):
    """The two reads a shard's lanes need."""

    def next_key(self, after: str) -> str | None:
        """The first conversation after this key that has open rows."""
        ...

    def rows(self, key: str, after_seq: int, limit: int) -> list[Row]:
        """Its open rows beyond a seq, in order."""
        ...


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
        memo: What its owner remembers of the conversation while the lane is warm.
    """

    __slots__ = (
        "arriving",
        "busy",
        "due_us",
        "hungry",
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
        self.hungry = False
        self.more = False
        self.paused = False
        self.due_us: int | None = None
        self.last_seq = 0
        self.arriving = 0
        self.tokens = 0
        self.memo: object = None

    @property
    def is_idle(self) -> bool:
        """Nothing queued, at work, on its way or on disk."""
        return not (
            self.queue or self.busy or self.more or self.arriving or self.waiting or self.due_us is not None
        )

    @property
    def has_older(self) -> bool:
        """Rows wait that came before the one that was stored just now."""
        return bool(self.queue) or self.more

    @property
    def is_ready(self) -> bool:
        """Its head may ask for a slot now."""
        return bool(self.queue) and not self.busy and not self.waiting and self.due_us is None


class Lanes(Generic[Row]):
    """All lanes of one shard for one kind of row.

    Args:
        backlog: Reads of the store.
        window_rows: Rows without a token kept in memory at once, > 0.
        lane_tokens: Tokens the rows of one lane may hold, > 0.
        page_rows: Rows of one lane read at once, > 0.
        warm_lanes: Idle lanes kept.
    """

    def __init__(
        self,
        backlog: Backlog[Row],
        *,
        window_rows: int,
        lane_tokens: int = 1,
        page_rows: int = 8,
        warm_lanes: int = 256,
    ) -> None:
        self._backlog = backlog
        self._window = window_rows
        self._lane_tokens = lane_tokens
        self._page = page_rows
        self._warm_limit = warm_lanes
        self._lanes: dict[str, Lane[Row]] = {}
        self._warm: OrderedDict[str, None] = OrderedDict()
        self._hungry: deque[Lane[Row]] = deque()
        self._held = 0
        self._cursor = ""
        self._scanning = True
        self._rescan = False

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def is_quiet(self) -> bool:
        """No lane has anything to do, and nothing open can be on disk unseen."""
        return not self._scanning and len(self._lanes) == len(self._warm)

    @property
    def held_rows(self) -> int:
        """Rows in memory that count into the window."""
        return self._held

    def values(self) -> list[Lane[Row]]:
        """All lanes in memory, idle ones too."""
        return list(self._lanes.values())

    def find(self, key: str) -> Lane[Row] | None:
        """The lane, if it is in memory."""
        return self._lanes.get(key)

    def knows_all(self, key: str) -> bool:
        """Whether every open row of the conversation on disk is in memory or on its way."""
        lane = self._lanes.get(key)
        if lane is not None:
            return not lane.more
        return not self._rescan and (not self._scanning or key <= self._cursor)

    def may_hold_token(self, key: str) -> bool:
        """Whether one more message of this conversation may hold a token."""
        lane = self._lanes.get(key)
        return lane is None or (lane.tokens < self._lane_tokens and lane.due_us is None)

    def open(self, key: str) -> Lane[Row]:
        """The lane of a conversation, made if it is not in memory."""
        lane = self._lanes.get(key)
        if lane is None:
            unseen = not self.knows_all(key)
            lane = self._lanes[key] = Lane(key)
            if unseen:
                lane.more = True
                self._want_page(lane)
        else:
            self._warm.pop(key, None)
        return lane

    def arrive(self, key: str, row: Row) -> Lane[Row] | None:
        """Take a freshly committed row into its lane, if that keeps order and bounds.

        Returns:
            The lane, or None where the row was left on disk (or a page had brought it already): its token is free.
        """
        paid = row.holds_token
        if key not in self._lanes and not paid and self._held >= self._window:
            self.restart_scan()
            return None
        lane = self.open(key)
        if row.seq <= lane.last_seq:
            return None
        full = not paid and (self._held >= self._window or len(lane.queue) >= self._page)
        if lane.more or full or lane.due_us is not None:
            self.leave_on_disk(lane)
            return None
        lane.queue.append(row)
        lane.last_seq = row.seq
        if not paid:
            self._held += 1
        return lane

    def leave_on_disk(self, lane: Lane[Row]) -> None:
        """Open rows of the lane are on disk only: read them when the window has room."""
        lane.more = True
        self._want_page(lane)

    def pause(self, lane: Lane[Row]) -> None:
        """A row of the lane goes to disk as claimed: a page would bring it a second time."""
        lane.paused = True

    def begin(self, lane: Lane[Row], row: Row) -> None:
        """That row is at work: it counts, until `release` or `put_back`."""
        lane.last_seq = max(lane.last_seq, row.seq)
        if not row.holds_token:
            self._held += 1
        self.resume(lane)

    def yield_place(self, lane: Lane[Row]) -> None:
        """That row goes back to disk, for others came before it; newer ones are left there too. Then `resume`."""
        lane.more = True

    def resume(self, lane: Lane[Row]) -> None:
        """That row waits on disk like any other, or there is none."""
        lane.paused = False
        if lane.more:
            self._want_page(lane)

    def miss(self, key: str) -> None:
        """A row of this conversation is on disk, and nobody can be told which."""
        lane = self._lanes.get(key)
        if lane is None:
            self.restart_scan()
        else:
            self.leave_on_disk(self.open(key))

    def take(self, lane: Lane[Row]) -> Row:
        """The head leaves the queue to be worked on. It still counts, until `release` or `put_back`."""
        row = lane.queue.popleft()
        lane.waited = False
        if lane.more and not lane.queue:
            self._want_page(lane)
        return row

    def put_back(self, lane: Lane[Row], row: Row) -> None:
        """A row taken becomes the head again."""
        lane.queue.appendleft(row)

    def release(self, row: Row) -> None:
        """A row taken leaves memory: it no longer counts into the window."""
        if not row.holds_token:
            self._held -= 1

    def back_off(self, lane: Lane[Row], head: Row, due_us: int) -> list[Row]:
        """Let a lane hold its head alone until `due_us`. The head is out of the queue and released.

        Returns:
            The rows dropped from memory; they stay on disk, and their tokens are free.
        """
        dropped = list(lane.queue)
        lane.queue.clear()
        for row in dropped:
            self.release(row)
        lane.more = lane.more or bool(dropped) or lane.arriving > 0
        lane.last_seq = head.seq
        lane.due_us = due_us
        lane.queue.append(head)
        return dropped

    def hold(self, lane: Lane[Row], head_seq: int, due_us: int) -> list[Row]:
        """Let a lane wait without a row in memory; `unhold` ends it. The head, if taken, is released.

        Returns:
            The rows dropped from memory; they stay on disk, and their tokens are free.
        """
        dropped = list(lane.queue)
        lane.queue.clear()
        for row in dropped:
            self.release(row)
        lane.more = True
        # The head is read again: of its own waits the last is over.
        lane.last_seq = head_seq - 1
        lane.waited = True
        lane.due_us = due_us
        return dropped

    def unhold(self, lane: Lane[Row]) -> None:
        """The wait is over: read the head again when the window has room."""
        lane.due_us = None
        self._want_page(lane)

    def wake(self, lane: Lane[Row]) -> None:
        """The back-off is over: the head counts again."""
        lane.due_us = None
        lane.waited = True
        if not lane.queue[0].holds_token:
            self._held += 1
        if lane.more:
            self._want_page(lane)

    def settle(self, lane: Lane[Row]) -> None:
        """Keep an idle lane warm for a while; the one idle the longest goes."""
        if lane.busy or not lane.is_idle:
            return
        self._warm[lane.key] = None
        self._warm.move_to_end(lane.key)
        if len(self._warm) > self._warm_limit:
            oldest, _ = self._warm.popitem(last=False)
            del self._lanes[oldest]

    def refill(self, *, scan: bool = True) -> list[Lane[Row]]:
        """Read pages while the window has room: lanes that wait for one and the scan (if wanted) take turns.

        Returns:
            The lanes that got rows. After some dozen reads the rest is left to the next call (`can_refill`), so that
            a scan of many conversations holds nobody up.
        """
        fed: list[Lane[Row]] = []
        for _ in range(_READS_AT_ONCE):
            if not self.can_refill(scan=scan):
                break
            if self._hungry:
                lane = self._hungry.popleft()
                lane.hungry = False
                # A scan may have fed it since, and it may be evicted by now: only `more` says that it still wants one.
                if lane.more and lane.due_us is None and not lane.paused and self._read_page(lane):
                    fed.append(lane)
            if scan and self._scanning:
                found = self._scan_step()
                if found is not None:
                    fed.append(found)
        return fed

    def can_refill(self, *, scan: bool = True) -> bool:
        """Whether `refill` has something to read and room for it."""
        return self._held < self._window and bool(self._hungry or (scan and self._scanning))

    def restart_scan(self) -> None:
        """Walk the conversations once more: something was left on disk without a lane."""
        self._rescan = self._scanning
        self._scanning = True

    def _scan_step(self) -> Lane[Row] | None:
        key = self._backlog.next_key(self._cursor)
        if key is None:
            self._scanning = self._rescan
            self._rescan = False
            self._cursor = ""
            return None
        self._cursor = key
        if key in self._lanes:
            return None
        lane = self.open(key)
        lane.more = True
        return lane if self._read_page(lane) else None

    def _read_page(self, lane: Lane[Row]) -> bool:
        rows = self._backlog.rows(lane.key, lane.last_seq, self._page)
        lane.more = len(rows) >= self._page
        for row in rows:
            lane.queue.append(row)
            lane.last_seq = row.seq
            if not row.holds_token:
                self._held += 1
        if not rows:
            self.settle(lane)
        return bool(rows)

    def _want_page(self, lane: Lane[Row]) -> None:
        if not lane.hungry and not lane.queue and lane.due_us is None:
            lane.hungry = True
            self._hungry.append(lane)
