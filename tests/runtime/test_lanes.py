"""Lanes, one rule at a time; `tests/properties/test_lanes_and_tokens.py` mixes them."""

from __future__ import annotations

import attrs

from shardline.runtime.lane import Lane
from shardline.runtime.lanes import Lanes


@attrs.define(eq=False)
class Row:
    """A row in memory."""

    key: str
    seq: int
    holds_token: bool = False
    is_urgent: bool = False


class Disk:
    """Open rows by conversation."""

    def __init__(self, **seqs: list[int]) -> None:
        self.seqs = seqs

    def page(self, after: str, room: int) -> list[tuple[str, list[Row] | None]]:
        """The first conversation after `after` with open rows, and now and then those rows."""
        key = min((key for key, seqs in self.seqs.items() if seqs and key > after), default=None)
        return [] if key is None else [(key, self.rows(key, 0, 99) if len(key) % 2 else None)]

    def rows(self, key: str, after_seq: int, limit: int) -> list[Row]:
        """Its open rows in order."""
        return [Row(key, seq) for seq in sorted(self.seqs.get(key, [])) if seq > after_seq][:limit]


def _lanes(disk: Disk, *, window_rows: int = 100, page_rows: int = 2, warm_lanes: int = 1) -> Lanes[Row]:
    return Lanes(disk, window_rows=window_rows, page_rows=page_rows, warm_lanes=warm_lanes)


def _scanned(disk: Disk, *, page_rows: int = 2) -> Lanes[Row]:
    lanes = _lanes(disk, page_rows=page_rows)
    lanes.refill()
    return lanes


def _work_off(lanes: Lanes[Row], lane: Lane[Row]) -> int:
    """Handle the head to its end; its seq."""
    row = lanes.take(lane)
    lanes.release(row)
    lanes.settle(lane)
    return row.seq


def _seqs(lane: Lane[Row] | None) -> list[int]:
    assert lane is not None
    return [row.seq for row in lane.queue]


def test_a_lane_holds_one_page_and_remembers_that_there_is_more() -> None:
    lanes = _lanes(Disk(a=[1, 2, 3, 4, 5], b=[6]))
    lanes.refill()
    a, b = lanes.find("a"), lanes.find("b")

    assert _seqs(a) == [1, 2]
    assert _seqs(b) == [6]
    assert not lanes.knows_all("a")
    assert lanes.knows_all("b")


def test_a_fresh_row_never_overtakes_what_is_on_disk() -> None:
    disk = Disk(a=[1, 2, 3])
    lanes = _scanned(disk)
    disk.seqs["a"].append(9)

    assert lanes.arrive("a", Row("a", 9)) is None
    a = lanes.find("a")
    assert a is not None
    handled: list[int] = []
    while a.queue:
        handled.append(_work_off(lanes, a))
        disk.seqs["a"].remove(handled[-1])
        lanes.refill()
    assert handled == [1, 2, 3, 9]
    assert lanes.is_quiet


def test_a_row_that_a_page_has_brought_is_not_taken_twice() -> None:
    lanes = _scanned(Disk(a=[1]))

    assert lanes.arrive("a", Row("a", 1)) is None
    assert _seqs(lanes.find("a")) == [1]


def test_before_the_scan_has_passed_nothing_is_pushed() -> None:
    disk = Disk(b=[1, 2])
    lanes = _lanes(disk)

    assert not lanes.knows_all("b")
    assert lanes.arrive("b", Row("b", 2, holds_token=True)) is None
    lanes.refill()
    assert _seqs(lanes.find("b")) == [1, 2]


def test_a_full_window_leaves_the_rest_on_disk_and_comes_back_for_it() -> None:
    disk = Disk(a=[1], b=[2])
    lanes = _lanes(disk, window_rows=1)
    lanes.refill()
    a = lanes.find("a")
    assert a is not None
    assert lanes.find("b") is None

    disk.seqs["a"].remove(_work_off(lanes, a))
    lanes.refill()
    assert _seqs(lanes.find("b")) == [2]


def test_back_off_holds_no_row_and_reads_all_of_them_again() -> None:
    disk = Disk(a=[1, 2, 3])
    lanes = _scanned(disk, page_rows=8)
    a = lanes.find("a")
    assert a is not None
    head = lanes.take(a)
    lanes.release(head)
    dropped = lanes.back_off(a, head, 500)

    assert [row.seq for row in dropped] == [2, 3]
    assert _seqs(a) == []
    assert not a.is_ready
    assert lanes.held_rows == 0
    assert lanes.refill() == []
    lanes.wake(a)
    assert lanes.refill() == [a]
    handled: list[int] = []
    while a.queue:
        handled.append(_work_off(lanes, a))
        disk.seqs["a"].remove(handled[-1])
        lanes.refill()
    assert handled == [1, 2, 3]


def test_a_warm_lane_that_gets_a_row_unannounced_is_not_evicted() -> None:
    lanes = _scanned(Disk())
    lanes.settle(lanes.open("a"))
    a = lanes.arrive("a", Row("a", 1))
    lanes.settle(lanes.open("b"))
    lanes.settle(lanes.open("c"))

    assert lanes.find("a") is a
    assert not lanes.is_quiet


def test_a_lane_fed_by_the_scan_is_not_read_again_after_its_eviction() -> None:
    """Two objects for one conversation would run two of its messages at once."""
    disk = Disk()
    lanes = _lanes(disk, window_rows=16)
    lanes.refill()
    b = lanes.open("b")
    b.arriving = 1
    for _ in range(14):
        # Room for one page.
        lanes.begin(b, Row("b", 0))
    disk.seqs["a"] = [1]
    lanes.restart_scan()
    lanes.restart_scan()
    (first,) = lanes.refill()
    disk.seqs["a"].remove(_work_off(lanes, first))
    b.arriving = 0
    lanes.settle(b)
    assert lanes.find("a") is None
    disk.seqs["a"].append(2)
    lanes.arrive("a", Row("a", 2, holds_token=True))
    fed = lanes.refill()

    assert [(lane.key, _seqs(lane)) for lane in fed] == [("a", [2])]
    assert fed[0] is lanes.find("a")


def test_a_row_whose_claim_rode_along_counts_until_it_is_released() -> None:
    lanes = _scanned(Disk())
    lane = lanes.open("a")
    lanes.pause(lane)
    row = Row("a", 1)
    lanes.begin(lane, row)
    assert lanes.held_rows == 1

    lanes.release(row)
    assert lanes.held_rows == 0


def test_no_page_brings_a_row_whose_claim_is_on_its_way() -> None:
    disk = Disk()
    lanes = _scanned(disk)
    lane = lanes.open("a")
    lane.busy = True
    lanes.pause(lane)
    disk.seqs["a"] = [1, 2]
    lanes.miss("a", 2)
    assert lanes.refill() == []
    assert not lanes.can_refill()

    lanes.begin(lane, Row("a", 1))
    assert lanes.refill() == [lane]
    assert _seqs(lane) == [2]


def test_a_row_that_yields_its_place_is_read_after_those_before_it() -> None:
    disk = Disk()
    lanes = _scanned(disk, page_rows=8)
    lane = lanes.open("a")
    lane.busy = True
    lanes.pause(lane)
    disk.seqs["a"] = [1, 2, 3]
    assert lanes.arrive("a", Row("a", 1)) is lane
    assert lane.has_older
    lanes.yield_place(lane)
    assert lanes.arrive("a", Row("a", 3)) is None
    lane.busy = False
    lanes.resume(lane)

    handled: list[int] = []
    while lane.queue:
        handled.append(_work_off(lanes, lane))
        disk.seqs["a"].remove(handled[-1])
        lanes.refill()
    assert handled == [1, 2, 3]
    assert lanes.is_quiet


def test_a_lane_with_more_than_its_share_takes_no_token_and_in_back_off_none_at_all() -> None:
    lanes = Lanes(Disk(), window_rows=4, lane_tokens=2)
    lanes.refill()
    lane = lanes.open("a")
    lane.tokens = 1
    assert lanes.may_hold_token("a")
    lane.tokens = 2
    assert not lanes.may_hold_token("a")
    lane.tokens = 0
    lanes.back_off(lane, Row("a", 1), 500)
    assert not lanes.may_hold_token("a")
    assert lanes.may_hold_token("another")


def test_idle_lanes_are_kept_up_to_a_number_and_until_the_next_sweep_but_one() -> None:
    lanes = _lanes(Disk(), warm_lanes=2)
    lanes.refill()
    for key in "abc":
        lanes.settle(lanes.open(key))
    assert [lane.key for lane in lanes.values()] == ["b", "c"]

    assert lanes.sweep()
    lanes.settle(lanes.open("c"))
    assert lanes.sweep()
    assert [lane.key for lane in lanes.values()] == ["c"]
    assert not lanes.sweep()
    assert len(lanes) == 0


def test_a_lane_with_something_to_do_is_never_swept() -> None:
    lanes = _scanned(Disk())
    lanes.settle(lanes.open("a"))
    lane = lanes.open("a")
    lane.arriving = 1
    lanes.sweep()
    lanes.sweep()
    assert lanes.find("a") is lane

    lane.arriving = 0
    lanes.settle(lane)
    lanes.sweep()
    lanes.sweep()
    assert lanes.find("a") is None


def test_a_heavy_lane_goes_when_it_is_idle() -> None:
    lanes = _scanned(Disk())
    lane = lanes.open("a")
    lane.is_heavy = True
    lane.busy = True
    lanes.settle(lane)
    assert lanes.find("a") is lane

    lane.busy = False
    lanes.settle(lane)
    assert lanes.find("a") is None
    assert lanes.is_quiet


def test_lanes_whose_rows_are_all_on_disk_are_few_and_the_others_are_found_again() -> None:
    """Sends that come faster than they go: a lane of each conversation would fill the memory."""
    disk = Disk()
    lanes: Lanes[Row] = Lanes(disk, window_rows=2, hungry_lanes=3)
    lanes.refill()
    for number in range(100):
        key = f"k{number:02}"
        lanes.open(key).arriving = 1
        disk.seqs[key] = [number + 1]
    for number in range(100):
        lane = lanes.find(f"k{number:02}")
        assert lane is not None
        lane.arriving = 0
        lanes.arrive(lane.key, Row(lane.key, number + 1))
        lanes.settle(lane)
    assert len(lanes) <= 2 + 3 + 1

    handled: list[str] = []
    while not lanes.is_quiet:
        lanes.refill()
        for lane in [lane for lane in lanes.values() if lane.queue]:
            disk.seqs[lane.key].remove(_work_off(lanes, lane))
            handled.append(lane.key)
        assert lanes.held_rows <= 2
    assert sorted(handled) == sorted(disk.seqs)
