"""Fail points act once, at the hit they are armed for, and cost nothing unarmed."""

from __future__ import annotations

import threading

import pytest

from shardline.actors.errors import Code
from shardline.actors.failpoints import BORDERS, KINDS, NO_FAILPOINTS, FailPointError, FailPoints
from tests.kits.words import refused


def test_nothing_is_armed_by_default() -> None:
    assert not NO_FAILPOINTS.armed
    NO_FAILPOINTS.hit("before_commit", KINDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("border", BORDERS)
def test_point_acts_at_its_hit_alone(kind: str, border: str) -> None:
    points = FailPoints.parse(f"{kind}.{border}:3:raise")
    assert points.armed
    for other in BORDERS:
        points.hit(other, set(KINDS) - {kind})
    for other in set(BORDERS) - {border}:
        points.hit(other, [kind])
    points.hit(border, [kind])
    points.hit(border, KINDS)
    with pytest.raises(FailPointError, match=f"{kind}.{border}"):
        points.hit(border, [kind])
    points.hit(border, [kind])


def test_several_points_are_counted_apart() -> None:
    points = FailPoints.parse("done.before_commit:2:raise, accept.before_wake:1:raise")
    points.hit("before_commit", ["done"])
    with pytest.raises(FailPointError):
        points.hit("before_wake", ["accept"])
    with pytest.raises(FailPointError):
        points.hit("before_commit", ["done"])


def test_wait_holds_the_thread_until_released() -> None:
    points = FailPoints.parse("done.after_commit:1:wait")
    passed = threading.Event()

    def work() -> None:
        points.hit("after_commit", ["done"])
        passed.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert points.wait_reached(10)
    assert not passed.is_set()
    points.release()
    thread.join(10)

    assert passed.is_set()


def test_point_that_is_not_reached_is_told() -> None:
    assert not FailPoints.parse("done.after_commit:1:wait").wait_reached(0)


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "done",
        "done.",
        "never.before_commit",
        "done.during_commit",
        "done.before_commit:x",
        "done.before_commit:1:no",
    ],
)
def test_bad_name_is_refused(spec: str) -> None:
    with refused(Code.INVALID_MESSAGE):
        FailPoints.parse(spec)
