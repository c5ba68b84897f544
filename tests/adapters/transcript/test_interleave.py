import json
from pathlib import Path

import attrs
from hypothesis import given
from hypothesis import strategies as st

from shardline.adapters.transcript.interleave import plan, reading_order
from shardline.adapters.transcript.position import Position, Watermark, position_from_fact, round_robin
from shardline.adapters.transcript.reader import ChatLog, open_log

lanes_of_lines = st.lists(st.lists(st.integers(), max_size=6), max_size=6)


def write(path: Path, conversations: str, start: int = 0) -> None:
    """Append one line for each letter."""
    with path.open("a") as file:
        for number, conversation in enumerate(conversations, start):
            record = {"conversation": conversation, "seq": number, "sender": "u", "at": "00:00", "text": "t"}
            file.write(json.dumps(record) + "\n")


def order(log: ChatLog, stored: Position | None = None, *, as_is: bool = False) -> list[int]:
    return [index for segment in plan(log, stored, as_is=as_is) for index in reading_order(log, segment)]


def stopped(log: ChatLog, low: int, *, as_is: bool = False) -> Position:
    """What a run that settled `low` lines of the log has stored."""
    return attrs.evolve(plan(log, None, as_is=as_is)[0].begin, low=low)


@given(lanes_of_lines)
def test_round_robin_loses_nothing_and_keeps_each_order(lanes: list[list[int]]) -> None:
    tagged = [[(number, place) for place in range(len(lane))] for number, lane in enumerate(lanes)]
    numbers = iter(range(10_000))
    ids = {item: next(numbers) for lane in tagged for item in lane}
    back = {number: item for item, number in ids.items()}
    found = [back[number] for number in round_robin([[ids[item] for item in lane] for lane in tagged])]

    assert sorted(found) == sorted(back.values())
    for number, lane in enumerate(tagged):
        assert [item for item in found if item[0] == number] == lane


@given(lanes_of_lines)
def test_round_robin_is_fair(lanes: list[list[int]]) -> None:
    """Between two lines of one conversation, every other that has lines left gets one."""
    found = list(round_robin([[number] * len(lane) for number, lane in enumerate(lanes)]))
    for rank in range(len(found)):
        seen_before = found[:rank].count(found[rank])

        assert all(
            found[:rank].count(other) >= min(len(lanes[other]), seen_before) for other in range(len(lanes))
        )


def test_conversations_take_turns_or_keep_the_files_order(tmp_path: Path) -> None:
    write(tmp_path / "log", "aaabbc")
    with open_log(tmp_path / "log") as log:
        assert order(log) == [0, 3, 5, 1, 4, 2]
        assert order(log, as_is=True) == [0, 1, 2, 3, 4, 5]


def test_a_stored_position_is_gone_on_from(tmp_path: Path) -> None:
    write(tmp_path / "log", "aaabbc")
    with open_log(tmp_path / "log") as log:
        at = stopped(log, 4)
    with open_log(tmp_path / "log", prefix_bytes=at.end) as log:
        assert order(log, at) == [4, 2]


def test_a_position_of_the_other_order_is_not_taken(tmp_path: Path) -> None:
    write(tmp_path / "log", "aab")
    with open_log(tmp_path / "log") as log:
        at = stopped(log, 2)
    with open_log(tmp_path / "log", prefix_bytes=at.end) as log:
        assert order(log, at, as_is=True) == [0, 1, 2]


def test_a_grown_log_is_finished_first_and_then_goes_on(tmp_path: Path) -> None:
    """With one order over the whole file, the lines that were appended would change which ones are known."""
    write(tmp_path / "log", "aaabbc")
    with open_log(tmp_path / "log") as log:
        at = stopped(log, 4)
    write(tmp_path / "log", "cccaa", start=6)
    with open_log(tmp_path / "log", prefix_bytes=at.end) as log:
        assert order(log, at) == [4, 2, 9, 6, 10, 7, 8]
        second = plan(log, at, as_is=False)[1].begin
    after_growth = attrs.evolve(second, low=3)
    with open_log(tmp_path / "log", prefix_bytes=second.end) as log:
        assert order(log, after_growth) == [7, 8]


def test_a_changed_log_starts_from_the_front(tmp_path: Path) -> None:
    write(tmp_path / "log", "aab")
    with open_log(tmp_path / "log") as log:
        at = stopped(log, 2)
    (tmp_path / "log").unlink()
    write(tmp_path / "log", "abbb")
    with open_log(tmp_path / "log", prefix_bytes=at.end) as log:
        assert order(log, at) == [0, 1, 2, 3]


def test_a_log_that_lost_its_end_starts_from_the_front(tmp_path: Path) -> None:
    write(tmp_path / "log", "aab")
    with open_log(tmp_path / "log") as log:
        at = stopped(log, 2)
    (tmp_path / "log").unlink()
    write(tmp_path / "log", "aa")
    with open_log(tmp_path / "log", prefix_bytes=at.end) as log:
        assert order(log, at) == [0, 1]


def test_an_unfinished_last_line_that_grew_starts_from_the_front(tmp_path: Path) -> None:
    write(tmp_path / "log", "aab")
    path = tmp_path / "log"
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    with open_log(path) as log:
        at = stopped(log, 3)
    path.write_bytes(whole)
    with open_log(path, prefix_bytes=at.end) as log:
        assert sorted(order(log, at)) == [0, 1, 2]


def test_an_empty_log_has_one_empty_segment(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with open_log(tmp_path / "log") as log:
        assert [segment.lines for segment in plan(log, None, as_is=False)] == [0]
        assert order(log) == []


@given(
    st.permutations(range(12)),
    st.integers(0, 11),
    st.sets(st.integers(0, 11)),
)
def test_the_watermark_passes_only_what_is_settled(places: list[int], count: int, bad: set[int]) -> None:
    mark = Watermark()
    for place in places[:count]:
        mark.settle(place, bad=place in bad)
    settled = set(places[:count])
    low = next(place for place in range(13) if place not in settled)

    assert mark.low == low
    assert mark.bad == sum(place < low for place in bad)


def test_a_position_survives_its_stored_form() -> None:
    at = Position(as_is=False, start=10, end=99, digest="00ff", low=7, bad=2)

    assert position_from_fact(at.to_fact()) == at


def test_an_unreadable_position_is_none() -> None:
    good = Position(as_is=False, start=10, end=99, digest="00ff", low=7, bad=2).to_fact()
    for fact in (
        None,
        "",
        "{}",
        "[]",
        good[:-3],
        good.replace("99", "9"),
        good.replace('"low":7', '"low":-1'),
    ):
        assert position_from_fact(fact) is None
