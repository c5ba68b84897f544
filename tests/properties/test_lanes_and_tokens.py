"""Lanes over a backlog, a pool of slots and the tokens of the edges, driven as a shard drives them.

The model is the disk: which rows of a conversation are open. Whatever starts must be the first of them.
Idle lanes are evicted at any moment, by number, sweeps and weight, and the shard is restarted at any moment.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shardline.runtime.lane import Lane
from shardline.runtime.lanes import Lanes
from shardline.runtime.pool import Job, WorkerPool
from shardline.runtime.tokens import Tokens
from tests.kits.lane_rows import Disk, Journal, Row, Words, no_work

KEYS = ("a", "b", "c", "d", "e")
MAX_INFLIGHT = 4
LANE_TOKENS = 2
WINDOW_ROWS = 3
PAGE_ROWS = 2
WARM_LANES = 1
HUNGRY_LANES = 1
SLOTS = 2


class LaneMachine(RuleBasedStateMachine):
    """One shard. A part is submitted, then committed, then settled: three steps, each in the order of submission."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.tokens = Tokens(MAX_INFLIGHT)
        self.journal = Journal()
        self._start_run()
        self.running: dict[str, tuple[Lane[Row], Row]] = {}
        self.ending: list[Row] = []
        self.paid: set[Row] = set()
        self.words = Words()
        self.handing_back: set[str] = set()
        self.offers: list[Row] = []
        self.twice: Counter[str] = Counter()
        self.passed: dict[str, Counter[str]] = {}
        self.numbers = 0
        self.last_seq = 0
        self.handled: list[int] = []

    def _start_run(self) -> None:
        """The memory of one run of the shard."""
        self.lanes: Lanes[Row] = Lanes(
            self.disk,
            window_rows=WINDOW_ROWS,
            lane_tokens=LANE_TOKENS,
            page_rows=PAGE_ROWS,
            warm_lanes=WARM_LANES,
            hungry_lanes=HUNGRY_LANES,
        )
        self.pool: WorkerPool[Job] = WorkerPool(SLOTS, no_work)

    # --- the journal ---

    @precondition(lambda self: self.journal.submitted)
    @rule()
    def commit(self) -> None:
        self.journal.commit()

    @precondition(lambda self: self.journal.committed)
    @rule()
    def settle(self) -> None:
        self.journal.settle()

    # --- the shard ---

    def _store(self, row: Row) -> None:
        self.last_seq += 1
        row.seq = self.last_seq
        self.disk.open.setdefault(row.key, {})[row.seq] = row.number
        self.words.stored(row)

    def _new(self, key: str, *, holds_token: bool = False) -> Row:
        self.numbers += 1
        return Row(key, self.numbers, holds_token=holds_token)

    def _count(self, key: str) -> None:
        """What waits on disk is counted before a message is offered, as the intake does it."""
        lane = self.lanes.find(key)
        if lane is None:
            if self.lanes.knows_all(key):
                return
            lane = self.lanes.open(key)
        if lane.beyond is None:
            seqs = [seq for seq in self.disk.open.get(key, {}) if seq > lane.last_seq]
            lane.beyond, lane.counted_seq = len(seqs), max(seqs, default=lane.last_seq)

    @rule(key=st.sampled_from(KEYS))
    def publish(self, key: str) -> None:
        self._count(key)
        row = self._new(key, holds_token=self.lanes.may_hold_token(key) and self.tokens.try_take())
        lane = self.lanes.open(key)
        was_idle = lane.is_idle
        lane.arriving += 1
        self.words.known[key].add(row.number)
        if row.holds_token:
            lane.tokens += 1
            self.paid.add(row)

        rides = was_idle and self.pool.try_reserve()
        if rides:
            lane.busy = True
            self.lanes.pause(lane)

        def settled() -> None:
            self.offers.remove(row)
            lane.arriving -= 1
            if rides and not lane.has_older:
                self.lanes.begin(lane, row)
                self._run(lane, row)
            elif rides:
                self._hand_back(lane, row)
            else:
                if self.lanes.arrive(key, row) is None:
                    self._free_token(lane, row)
                self._look(lane)

        epoch = self.journal.epoch

        def commit() -> None:
            self._store(row)
            if epoch != self.journal.epoch:
                self.twice[key] += 1

        def late() -> None:
            if row in self.offers:
                self._told_late(row)

        self.offers.append(row)
        self.journal.submit(commit, settled, late)

    def _told_late(self, row: Row) -> None:
        """Offered to a run that crashed and settled in the next: it counts all the while, and stays on disk."""
        self.offers.remove(row)
        self.twice[row.key] -= 1
        lane = self.lanes.open(row.key)
        lane.arriving -= 1
        self.lanes.miss(row.key, row.seq)
        self.lanes.settle(lane)

    def _hand_back(self, lane: Lane[Row], row: Row) -> None:
        """Another home was quicker: the claim that rode along goes back."""
        self.lanes.yield_place(lane)
        self.lanes.note(lane, row.seq)
        lane.arriving += 1
        self.handing_back.add(lane.key)
        self.pool.give_back()
        self._free_token(lane, row)

        def settled() -> None:
            lane.arriving -= 1
            self.handing_back.remove(lane.key)
            lane.busy = False
            self.lanes.resume(lane)
            self._look(lane)

        self.journal.submit(lambda: None, settled)

    @rule(key=st.sampled_from(KEYS), has_room=st.booleans())
    def emit(self, key: str, has_room: bool) -> None:
        """Another home decided it: this shard is told when it is stored, if its mailbox has room for the news."""
        row = self._new(key)

        def settled() -> None:
            self.words.told(row)
            if not has_room:
                self.lanes.miss(key, row.seq)
            elif (lane := self.lanes.arrive(key, row)) is not None:
                self._look(lane)

        self.journal.submit(lambda: self._store(row), settled)

    @rule()
    def refill(self) -> None:
        for lane in self.lanes.refill():
            self._look(lane)

    def _look(self, lane: Lane[Row]) -> None:
        if not lane.is_ready:
            self.lanes.settle(lane)
        elif self.pool.try_reserve():
            self._start(lane)
        else:
            lane.waiting = True
            self.passed[lane.key] = Counter()
            self.pool.reserve_later(lambda: self._granted(lane))

    def _granted(self, lane: Lane[Row]) -> bool:
        lane.waiting = False
        del self.passed[lane.key]
        if not lane.is_ready:
            self.lanes.settle(lane)
            return False
        self._start(lane)
        return True

    def _start(self, lane: Lane[Row]) -> None:
        row = self.lanes.take(lane)
        lane.busy = True
        self._run(lane, row)

    def _run(self, lane: Lane[Row], row: Row) -> None:
        assert row.key not in self.running, "two rows of a conversation at work"
        assert row.seq == min(self.disk.open[row.key]), "not the first open row"
        assert self.disk.open[row.key][row.seq] == row.number
        self.running[row.key] = (lane, row)
        lane.is_heavy = row.number % 3 == 0
        for passed in self.passed.values():
            passed[row.key] += 1
            assert passed[row.key] == 1, "a ready lane waits for more than one round"

    def _end(self, key: str) -> tuple[Lane[Row], Row]:
        lane, row = self.running.pop(key)
        self.ending.append(row)
        return lane, row

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def turn_is_done(self, data: st.DataObject) -> None:
        self._done(data.draw(st.sampled_from(sorted(self.running))))

    def _done(self, key: str) -> None:
        lane, row = self._end(key)
        following = self.lanes.take(lane) if lane.queue and not self.pool.has_line else None
        if following is None:
            self.pool.give_back()
        else:
            # Its claim rides along: it is out of the queue, and starts once the end of the other is durable.
            self.ending.append(following)
            self.words.ended(row)

        def settled() -> None:
            self.ending.remove(row)
            self.lanes.release(row)
            self._free_token(lane, row)
            if following is not None:
                self.ending.remove(following)
                self._run(lane, following)
                return
            self.words.ended(row)
            lane.busy = False
            self._look(lane)

        self.journal.submit(lambda: self._close(row), settled)

    def _close(self, row: Row) -> None:
        del self.disk.open[row.key][row.seq]
        self.handled.append(row.number)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), release=st.booleans())
    def turn_is_not_done(self, data: st.DataObject, release: bool) -> None:
        lane, row = self._end(data.draw(st.sampled_from(sorted(self.running))))
        self.pool.give_back()

        def settled() -> None:
            self.ending.remove(row)
            if release:
                self.lanes.put_back(lane, row)
            else:
                self.lanes.release(row)
                self._free_token(lane, row)
                for dropped in self.lanes.back_off(lane, row, 1):
                    self._free_token(lane, dropped)
            lane.busy = False
            self._look(lane)

        self.journal.submit(lambda: None, settled)

    @precondition(lambda self: self._in_back_off())
    @rule(data=st.data())
    def back_off_is_over(self, data: st.DataObject) -> None:
        self._wake(data.draw(st.sampled_from(self._in_back_off())))

    def _in_back_off(self) -> list[str]:
        return sorted(lane.key for lane in self.lanes.values() if lane.due_us is not None)

    def _wake(self, key: str) -> None:
        lane = self.lanes.open(key)
        self.lanes.wake(lane)
        self._look(lane)

    def _free_token(self, lane: Lane[Row], row: Row) -> None:
        if row.holds_token:
            row.holds_token = False
            lane.tokens -= 1
            self.paid.remove(row)
            self.tokens.give_back()

    @rule()
    def sweep(self) -> None:
        """Idle lanes cost nothing after two of these."""
        self.lanes.sweep()

    @rule(late=st.lists(st.sampled_from(KEYS), max_size=2))
    def restart(self, late: list[str]) -> None:
        """The shard crashes: its commits are settled before the new lease is, its claims and tokens go back."""
        while self.journal.submitted:
            self.journal.commit()
        self.offers.clear()
        self.twice.clear()
        for key in late:
            # While the lease is under way the crashed run is the one that messages are offered to.
            self.publish(key)
        self.journal.epoch += 1
        for row in self.paid:
            row.holds_token = False
            self.tokens.give_back()
        self.paid.clear()
        self.running.clear()
        self.ending.clear()
        self.passed.clear()
        self.handing_back.clear()
        self.words.start_anew(self.disk, self.handled)
        self._start_run()
        for row in self.offers:
            self.lanes.open(row.key).arriving += 1
            self.words.known[row.key].add(row.number)

    # --- the promises ---

    @invariant()
    def tokens_are_conserved(self) -> None:
        assert self.tokens.free == MAX_INFLIGHT - len(self.paid)
        for lane in self.lanes.values():
            assert lane.tokens == sum(row.key == lane.key for row in self.paid)
            assert lane.tokens <= LANE_TOKENS

    @invariant()
    def the_window_counts_every_row_without_a_token(self) -> None:
        rows = [row for _, row in self.running.values()] + self.ending
        rows += [row for lane in self.lanes.values() for row in lane.queue]
        held = sum(not row.holds_token for row in rows)
        assert self.lanes.held_rows == held
        # A row whose claim rode along is at work already: it is let in.
        assert held <= WINDOW_ROWS + len(KEYS)

    @invariant()
    def what_waits_is_counted(self) -> None:
        """Exactly, wherever the shard was told of all that is stored, and of all that a crash left on its way."""
        for lane in self.lanes.values():
            if lane.beyond is not None and not self.words.untold[lane.key] and not self.twice[lane.key]:
                at_work = lane.busy and lane.key not in self.handing_back
                assert lane.waiting_rows + at_work == len(self.words.known[lane.key])

    @invariant()
    def memory_is_in_order(self) -> None:
        for lane in self.lanes.values():
            seqs = [row.seq for row in lane.queue]
            assert seqs == sorted(set(seqs))
            assert not seqs or seqs[-1] <= lane.last_seq

    @invariant()
    def a_lane_with_work_stays_in_memory(self) -> None:
        for lane, _ in self.running.values():
            assert self.lanes.find(lane.key) is lane

    @invariant()
    def idle_lanes_are_few(self) -> None:
        assert sum(lane.is_idle for lane in self.lanes.values()) <= WARM_LANES
        assert not any(lane.is_idle and lane.is_heavy for lane in self.lanes.values())

    def teardown(self) -> None:
        """No row is lost: with nothing new coming, everything is handled and every count is back where it was."""
        for _ in range(20 * (self.numbers + 1)):
            while self.journal.submitted or self.journal.committed:
                if self.journal.submitted:
                    self.journal.commit()
                self.journal.settle()
            for key in self._in_back_off():
                self._wake(key)
            for key in sorted(self.running):
                self._done(key)
            self.refill()
            if self.lanes.is_quiet and not self.journal.submitted:
                break
        assert sorted(self.handled) == list(range(1, self.numbers + 1))
        assert not any(self.disk.open.values())
        assert (self.lanes.is_quiet, self.lanes.held_rows) == (True, 0)
        assert self.tokens.free == MAX_INFLIGHT
        assert self.pool.is_idle

        for _ in range(2):
            self.lanes.sweep()
        assert len(self.lanes) == 0


LaneMachine.TestCase.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
TestLaneMachine = LaneMachine.TestCase
