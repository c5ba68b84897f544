"""A goal is judged by the median of its rounds' own ratios; the product's runs count what is stored."""

from pathlib import Path

import pytest

from benchmarks.comparison import Goal, as_line, compare
from benchmarks.product import product_chat, product_handle, product_publish
from benchmarks.raw import Rate


def never(path: Path, /, *, seconds: float) -> Rate:
    raise AssertionError("only rates are compared")


def goal(*, bar: float | None = None, most_commits: float | None = None) -> Goal:
    return Goal(name="a goal", sync="FULL", product=never, raw=never, bar=bar, most_commits=most_commits)


def rates(*per_s: int, commits: int = 1) -> list[Rate]:
    return [Rate(messages=messages, commits=commits, took_s=1.0) for messages in per_s]


def test_the_ratio_is_the_median_of_the_rounds_and_not_that_of_the_medians() -> None:
    result = compare(goal(), rates(100, 30, 20), rates(10, 30, 5))

    assert (result.lowest, result.ratio, result.highest) == (1.0, 4.0, 10.0)
    assert result.per_s / result.raw_per_s == 3.0


@pytest.mark.parametrize(("bar", "is_met"), [(0.51, False), (0.5, True), (None, None)])
def test_a_bar_is_met_by_what_reaches_it(bar: float | None, is_met: bool | None) -> None:
    result = compare(goal(bar=bar), rates(10), rates(20))

    assert result.is_met is is_met
    assert as_line(result).endswith("MISSED") is (is_met is False)


def test_too_many_commits_miss_a_goal_whose_ratio_is_met() -> None:
    assert compare(goal(bar=1, most_commits=0.1), rates(20, commits=2), rates(10)).is_met is True
    assert compare(goal(bar=1, most_commits=0.1), rates(20, commits=3), rates(10)).is_met is False


def test_one_message_in_flight_takes_three_commits(tmp_path: Path) -> None:
    rate = product_chat(tmp_path / "chat.db", "NORMAL", in_flight=1, conversations=2, seconds=0.05)

    # One more where the runtime's own word of itself, written every five seconds, fell into the run.
    assert rate.messages > 0
    assert rate.commits - 3 * rate.messages in (0, 1)


def test_messages_without_an_answer_are_counted_once_done(tmp_path: Path) -> None:
    assert product_handle(tmp_path / "handle.db", "NORMAL", conversations=2, seconds=0.05).messages > 0


def test_each_publisher_gets_into_a_batch(tmp_path: Path) -> None:
    rate = product_publish(tmp_path / "publish.db", "NORMAL", publishers=16, seconds=0.05)

    assert rate.messages > rate.commits > 0
