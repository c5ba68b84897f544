"""Lanes: the run-time queues of one shard, one per conversation, over a backlog that stays on disk.

The same rules serve inbound messages and sends. Everything here is synchronous and free of I/O apart from the two
reads of `Backlog`, which see committed rows only.

- A lane holds rows in `seq` order. At most one of them is at work (`busy`); the next waits for its end to be durable.
- Memory is a window. A row that does not fit stays on disk: its lane is marked `more`, and from then on the lane is
  fed from disk until a page comes back short. That keeps order without remembering what was left out.
- A fresh row may go straight to its lane only if no older open row of the conversation can be on disk unseen
  (`knows_all`). At start and after an overflow a scan walks the conversations in key order; what it has not passed
  yet is left to it.
- Urgent rows (sends that are no part of a broadcast) have a reserve beside the window: a fresh one is taken, or its
  lane's page read at once, where the window is full of others.
- A lane in back-off holds no row: its head is read again when due.
- Lanes whose rows are all on disk wait for their page in memory, up to a number; beyond it a scan finds them again.
- An idle lane is kept warm in a bounded list until the next sweep but one; then it costs nothing.
- What waits on disk is counted there only for a lane whose rows nobody has seen; else by what was left there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic

from .defaults import HUNGRY_LANES, WARM_LANES
from .lane import Lane
from .lane_row import Backlog, Row
from .scan import Scan, page_sizes
from .warm import WarmKeys

_READS_AT_ONCE: Final = 64


class Lanes(Generic[Row]):
    """All lanes of one shard for one kind of row.

    Args:
        backlog: Reads of the store.
        window_rows: Rows without a token kept in memory at once, > 0.
        reserve_rows: As many more that are urgent, >= 0.
        lane_tokens: Tokens the rows of one lane may hold, > 0.
        page_rows: Rows of one lane read at once, > 0; fewer under a small window, which no page overfills.
        scan_rows: Rows that a scan waits to have room for while no lane wants a page, > 0; fewer as above.
        warm_lanes, hungry_lanes: How many are kept that are idle, and that wait for a page.
    """

    def __init__(
        self,
        backlog: Backlog[Row],
        *,
        window_rows: int,
        reserve_rows: int = 0,
        lane_tokens: int = 1,
        page_rows: int = 8,
        scan_rows: int = 1,
        warm_lanes: int = WARM_LANES,
        hungry_lanes: int = HUNGRY_LANES,
    ) -> None:
        self._backlog = backlog
        self._window = window_rows
        self._reserve = reserve_rows
        self._hungry_limit = hungry_lanes
        self._lane_tokens = lane_tokens
        self._page, self._scan_room = page_sizes(window_rows, page_rows, scan_rows)
        self._lanes: dict[str, Lane[Row]] = {}
        self._warm = WarmKeys(warm_lanes)
        # By key, in the order they are read.
        self._hungry: OrderedDict[str, Lane[Row]] = OrderedDict()
        self._held = 0
        self._kept = 0
        self._scan = Scan()

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def is_quiet(self) -> bool:
        """No lane has anything to do, and nothing open can be on disk unseen."""
        return self._scan.is_over and len(self._lanes) == len(self._warm)

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
        return self._scan.has_passed(key)

    def may_hold_token(self, key: str) -> bool:
        """Whether one more message of this conversation may hold a token."""
        lane = self._lanes.get(key)
        return lane is None or (lane.tokens < self._lane_tokens and lane.due_us is None)

    def open(self, key: str) -> Lane[Row]:
        """The lane of a conversation, made if it is not in memory."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key)
            if not self._scan.is_over and not self._scan.has_passed(key):
                lane.more = True
                lane.beyond = None
                self._want_page(lane)
        else:
            self._warm.discard(key)
        return lane

    def arrive(self, key: str, row: Row) -> Lane[Row] | None:
        """Take a freshly committed row into its lane, if that keeps order and bounds.

        Returns:
            The lane, or None where the row was left on disk (or a page had brought it already): its token is free.
        """
        paid = row.holds_token
        most = self._window + self._reserve if self._reserve and row.is_urgent else self._window
        if key not in self._lanes and not paid and self._held >= most:
            self.restart_scan()
            return None
        lane = self.open(key)
        if row.seq <= lane.last_seq:
            self.note(lane, row.seq)
            return None
        full = not paid and (self._held >= most or len(lane.queue) >= self._page)
        if lane.more or full or lane.due_us is not None:
            self.note(lane, row.seq)
            self.leave_on_disk(lane)
            # Behind a window full of others' rows nobody would read an urgent one for long.
            is_read = most > self._window and self._held + self._page <= most and self._feed(lane)
            return lane if is_read else None
        lane.queue.append(row)
        lane.last_seq = row.seq
        if not paid:
            self._held += 1
        return lane

    def note(self, lane: Lane[Row], seq: int) -> None:
        """Count a row that the lane is told of and does not take: it is on disk, or a page has brought it."""
        if lane.beyond is not None and seq > lane.counted_seq:
            lane.beyond += 1

    def leave_on_disk(self, lane: Lane[Row]) -> None:
        """Open rows of the lane are on disk only: read them when the window has room."""
        lane.more = True
        self._want_page(lane)

    def pause(self, lane: Lane[Row]) -> None:
        """A row of the lane goes to disk as claimed: a page would bring it a second time."""
        lane.paused = True

    def begin(self, lane: Lane[Row], row: Row) -> None:
        """That row is at work: it counts, until `release` or `put_back`."""
        seq = row.seq
        lane.last_seq = max(lane.last_seq, seq)
        if not row.holds_token:
            self._held += 1
        lane.paused = False
        if lane.more:
            self._want_page(lane)

    def yield_place(self, lane: Lane[Row]) -> None:
        """That row goes back to disk, for others came before it; newer ones are left there too. Then `resume`."""
        lane.more = True

    def resume(self, lane: Lane[Row]) -> None:
        """That row waits on disk like any other, or there is none."""
        lane.paused = False
        if lane.more:
            self._want_page(lane)

    def miss(self, key: str, seq: int) -> None:
        """A row of this conversation is on disk, and its lane cannot take it."""
        lane = self._lanes.get(key)
        if lane is None:
            self.restart_scan()
        else:
            self.note(lane, seq)
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

    def back_off(self, lane: Lane[Row], head: Row, due_us: int, *, keeps_head: bool = False) -> list[Row]:
        """Let a lane wait until `due_us`. The head is out of the queue and released.

        Args:
            keeps_head: It knows what is not on disk, so it stays in memory; of all lanes so many as fit the window.
        Returns:
            The other rows dropped from memory; they stay on disk, and their tokens are free.
        """
        keeps_head = keeps_head and self._kept < self._window
        self._kept += keeps_head
        dropped = list(lane.queue)
        lane.queue.clear()
        for row in dropped:
            self.release(row)
        if lane.beyond is not None:
            lane.beyond += len(dropped) + (not keeps_head)
        lane.more = lane.more or bool(dropped) or lane.arriving > 0 or not keeps_head
        lane.last_seq = head.seq if keeps_head else head.seq - 1
        lane.due_us = due_us
        if keeps_head:
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
        if lane.beyond is not None:
            lane.beyond += len(dropped) + (not dropped or dropped[0].seq != head_seq)
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
        """The back-off is over: the head is read, or if it was kept counts again."""
        lane.due_us = None
        lane.waited = True
        if lane.queue and not lane.queue[0].holds_token:
            self._held += 1
            self._kept -= 1
        if lane.more:
            self._want_page(lane)

    def pass_over(self, lane: Lane[Row], seq: int) -> None:
        """The head that a lane in back-off waits for, on disk alone, is another's from here on: go on behind it."""
        if lane.due_us is not None and not lane.queue and lane.last_seq == seq - 1:
            lane.last_seq = seq
            self.wake(lane)
            lane.waited = False

    def drop(self, lane: Lane[Row], is_gone: Callable[[Row], bool]) -> None:
        """Rows that wait in the lane have another place on disk from here on, or none."""
        for row in [row for row in lane.queue if is_gone(row)]:
            lane.queue.remove(row)
            self.release(row)
        self._want_page(lane)

    def read_again(self, key: str, seq: int) -> None:
        """Rows of the conversation from that place on were passed over: read them again."""
        lane = self.open(key)
        self.drop(lane, lambda row: row.seq >= seq)
        lane.last_seq = min(lane.last_seq, seq - 1)
        self.leave_on_disk(lane)

    def settle(self, lane: Lane[Row]) -> None:
        """Keep an idle lane warm for a while, and one whose rows are on disk if there is room; else let it go."""
        if lane.busy or not lane.is_idle:
            if len(self._hungry) > self._hungry_limit and lane.is_on_disk:
                self._evict(lane.key)
                self.restart_scan()
            return
        if lane.is_heavy:
            self._warm.discard(lane.key)
            self._evict(lane.key)
        elif (gone := self._warm.add(lane.key)) is not None:
            self._evict(gone)

    @property
    def has_warm(self) -> bool:
        """Whether idle lanes are kept."""
        return len(self._warm) > 0

    def sweep(self) -> bool:
        """Evict the lanes that have been idle since before the last sweep; answers whether idle ones are left."""
        for key in self._warm.sweep():
            self._evict(key)
        return self.has_warm

    def refill(self, *, scan: bool = True) -> list[Lane[Row]]:
        """Read pages while the window has room: lanes that wait for one and the scan (if wanted) take turns.

        Returns:
            The lanes that got rows. After some dozen reads the rest is left to the next call, so nobody is held up.
        """
        fed: list[Lane[Row]] = []
        for _ in range(_READS_AT_ONCE):
            if not self.can_refill(scan=scan):
                break
            if self._hungry:
                lane = next(iter(self._hungry.values()))
                if self._feed(lane):
                    fed.append(lane)
            if scan and self._scan.is_on and self._held + self._page <= self._window:
                fed += self._scan_step()
        return fed

    def can_refill(self, *, scan: bool = True) -> bool:
        """Whether `refill` has something to read and room for it."""
        is_wanted = bool(self._hungry) or (scan and self._scan.is_on)
        return is_wanted and self._held + (self._page if self._hungry else self._scan_room) <= self._window

    def let_go(self, lane: Lane[Row]) -> bool:
        """Forget a lane in a wait, whose rows are all on disk: from then on, until `restart_scan`, who knows."""
        if lane.queue or lane.busy or lane.arriving or lane.waiting:
            return False
        self._evict(lane.key)
        self._scan.leave_behind()
        return True

    def restart_scan(self) -> None:
        """Walk the conversations once more: something was left on disk without a lane."""
        self._scan.restart()

    def _scan_step(self) -> list[Lane[Row]]:
        found = self._backlog.page(self._scan.cursor, self._window - self._held)
        if not found:
            self._scan.end_round()
        fed: list[Lane[Row]] = []
        for key, rows in found:
            if self._held + self._page > self._window:
                break
            self._scan.cursor = key
            lane = self._lanes.get(key)
            if lane is None:
                lane = self.open(key)
                if not lane.more:
                    lane.more = True
                    lane.beyond = None
            elif key not in self._hungry:
                continue
            if self._feed(lane, rows):
                fed.append(lane)
        return fed

    def _feed(self, lane: Lane[Row], rows: list[Row] | None = None) -> bool:
        """Read a page if the lane wants one still, or take `rows`: all its open rows, where they are read already."""
        self._hungry.pop(lane.key, None)
        wants = lane.more and not lane.queue and not lane.paused and lane.due_us is None
        if wants and rows is not None and len(rows) < self._page:
            return self._take_page(lane, [row for row in rows if row.seq > lane.last_seq], self._page)
        return wants and self.read_on(lane, self._page)

    def read_on(self, lane: Lane[Row], limit: int) -> bool:
        """Read so many rows behind those in memory. Beyond a page they have to be at work at once."""
        return self._take_page(lane, self._backlog.rows(lane.key, lane.last_seq, limit), limit)

    def _take_page(self, lane: Lane[Row], rows: list[Row], limit: int) -> bool:
        lane.more = len(rows) >= limit
        for row in rows:
            lane.queue.append(row)
            lane.last_seq = row.seq
            if not row.holds_token:
                self._held += 1
        if lane.beyond is not None:
            lane.beyond -= len(rows)
        if not lane.more and not lane.arriving:
            lane.beyond, lane.counted_seq = 0, lane.last_seq
        if not rows:
            self.settle(lane)
        return bool(rows)

    def _want_page(self, lane: Lane[Row]) -> None:
        if lane.more and not lane.queue and lane.due_us is None:
            self._hungry[lane.key] = lane

    def _evict(self, key: str) -> None:
        del self._lanes[key]
        # It may have asked for a page that it did not need in the end.
        self._hungry.pop(key, None)
