"""A clock that is set forward is believed once what was stored before that is old, whatever the clock says."""

from __future__ import annotations

import attrs

from shardline.runtime.steady_wall import SteadyWall

WINDOW_S = 100
SET_US = 1_000_000_000


@attrs.define
class Clocks:
    """Both, by hand; `ahead_us` is what the wall clock was set by."""

    at_s: float = 50.0
    ahead_us: int = 0

    def wall_us(self) -> int:
        return 1_760_000_000_000_000 + self.ahead_us + round(self.at_s * 1_000_000)

    def mono_s(self) -> float:
        return self.at_s


def doubted_us(clocks: Clocks, wall: SteadyWall, later_s: float = 1.0) -> int:
    clocks.at_s += later_s
    return clocks.wall_us() - wall.now_us()


def test_a_jump_forward_is_believed_when_the_window_is_over() -> None:
    clocks = Clocks()
    wall = SteadyWall(clocks, WINDOW_S)
    assert doubted_us(clocks, wall) == 0
    clocks.ahead_us = SET_US
    assert doubted_us(clocks, wall) == SET_US
    assert doubted_us(clocks, wall, WINDOW_S - 2) == SET_US
    assert doubted_us(clocks, wall, 2) == 0


def test_a_jump_back_is_believed_at_once_and_its_end_is_one_forward() -> None:
    clocks = Clocks()
    wall = SteadyWall(clocks, WINDOW_S)
    assert doubted_us(clocks, wall) == 0
    clocks.ahead_us = -SET_US
    assert doubted_us(clocks, wall) == 0
    clocks.ahead_us = 0
    assert doubted_us(clocks, wall) == SET_US
    assert doubted_us(clocks, wall, WINDOW_S + 1) == 0
