"""Thousands of messages under kills and actor crashes: what is left is what a model says.

SHARDLINE_STRESS_SEED sets the seed; each failure prints it with the command that does the same again. Without it the
seeds are always these: what others find is for `script/soak`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.stress.drive import Report, drive
from tests.stress.plan import LONG, PROGRAMS, READERS, SHORT, Plan, Sizes
from tests.stress.script import CHANNELS

SEED = os.environ.get("SHARDLINE_STRESS_SEED")
SMALL = Sizes(conversations=12, messages=400, kills=0)


def check(report: Report) -> None:
    assert not report.differences, "\n".join(
        [
            f"seed {report.plan.seed}: {len(report.differences)} differences; the same again: {report.repeat}",
            *report.differences[:20],
        ]
    )


def test_stress_with_a_printed_seed(tmp_path: Path) -> None:
    report = drive(tmp_path, int(SEED or 7), SHORT)

    check(report)
    assert report.done["requeued"]
    assert report.done["struck"]
    assert len(report.endings) == SHORT.kills + 3


@pytest.mark.long
def test_long_stress_with_a_printed_seed(tmp_path: Path) -> None:
    report = drive(tmp_path, int(SEED or 42), LONG)

    check(report)
    assert report.done["struck"]
    assert len(report.endings) == LONG.kills + 3


def test_a_seed_gives_the_same_workload_again() -> None:
    first, again, other = (Plan(seed, SHORT) for seed in (5, 5, 6))

    assert list(first.items()) == list(again.items())
    assert first.endings == again.endings
    assert list(first.items()) != list(other.items())


def test_every_message_is_said_by_exactly_one() -> None:
    plan = Plan(3, SHORT)
    numbers = [
        number
        for channel in CHANNELS
        for reader in range(READERS)
        for number in plan.read_by(channel, reader)
    ]
    numbers += [number for program in range(PROGRAMS) for number in plan.published_by(program)]

    assert sorted(numbers) == list(range(SHORT.messages))


# Each with what the comparison has to say of it, at the least.
FAULTS = {
    "lose-at-recovery:1": "done with 1 crashes",
    "swap-messages:5": "before",
    "swap-sends:5": "before",
    "send-twice:40": "twice under one claim",
    "lose-token:40": "tokens are back",
    "lose-slot:20": "pools_with_slots_taken = 1",
    "forget-state:30": "its state is that of",
    "answer-early:30": "lost",
    "leak:1": "memory grew",
}


QUICK = ("lose-at-recovery:1", "swap-messages:5", "send-twice:40")


@pytest.mark.parametrize(
    "fault",
    [pytest.param(fault, marks=() if fault in QUICK else pytest.mark.long, id=fault) for fault in FAULTS],
)
def test_a_fault_of_the_product_is_found(tmp_path: Path, fault: str) -> None:
    kills = 1 if fault.startswith("lose-at-recovery") else 0
    # A killed one has work left for a second, lest it should come to its end before anybody is there to kill it.
    messages = 1_500 if kills or fault.startswith("leak") else SMALL.messages
    sizes = Sizes(conversations=SMALL.conversations, messages=messages, kills=kills)
    report = drive(tmp_path, 3, sizes, fault=fault)

    assert [line for line in report.differences if FAULTS[fault] in line], report.differences
