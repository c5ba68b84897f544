"""Kills, store faults, channel faults and clock jumps, mixed: nothing lost, order kept, and the health told the truth.

SHARDLINE_CHAOS_SEED sets the seed; each failure prints it with the command that does the same again. Without it the
seeds are always these: what others find is for `script/soak`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.drive import Report, drive
from tests.chaos.plan import WORDS, End, Storm, plan_run

SEED = os.environ.get("SHARDLINE_CHAOS_SEED")
LONG_S = 170.0


def check(report: Report) -> None:
    assert not report.differences, "\n".join(
        [f"seed {report.seed}; the same again: {report.repeat}", *report.differences[:20]]
    )


def test_chaos_with_a_printed_seed(tmp_path: Path) -> None:
    report = drive(tmp_path, int(SEED or 1), 3)

    check(report)
    assert report.said.total() >= 6
    assert report.messages > 300


@pytest.mark.long
@pytest.mark.timeout(600)
def test_long_chaos_with_a_printed_seed(tmp_path: Path) -> None:
    report = drive(tmp_path, int(SEED or 42), 500, limit_s=LONG_S, least_kills=2, least_said=30)

    check(report)
    assert report.ends[End.KILL] >= 2
    assert report.said.total() >= 30


# Each with what is to be said of it, at the least; `lie` is a health that is always ok.
FAULTS = {
    "lie": "not within",
    "send-twice:60": "went out 2 times",
    "swap-sends:5": "answers",
    "forget-state:60": "answers",
    "lose-token:5": "tokens_free",
}


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, id=fault, marks=() if fault == "lie" else [pytest.mark.long]) for fault in FAULTS],
)
def test_a_fault_of_the_product_is_found(tmp_path: Path, fault: str) -> None:
    report = drive(tmp_path, 1, 0, fault=fault)

    assert [line for line in report.differences if FAULTS[fault] in line], report.differences


def test_every_storm_and_every_end_comes_up() -> None:
    plans = [plan_run(1, number, is_last=False) for number in range(30)]

    assert {storm for plan in plans for entry in plan.storms for storm in entry} == set(Storm)
    assert {plan.end for plan in plans} == set(End) - {End.DONE}
    assert plans == [plan_run(1, number, is_last=False) for number in range(30)]
    assert set(Storm) - WORDS.keys() == {Storm.LOG_FAILS, Storm.LOST_ANSWERS, Storm.CLOCK_JUMP}
