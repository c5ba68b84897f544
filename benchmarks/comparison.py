"""What every goal shares: the product and raw SQLite in turn, ratios round by round, a table with its bars."""

import argparse
import json
import logging
import os
import platform
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import attrs
import structlog

from benchmarks.pace import paced_sync_us
from benchmarks.raw import Rate
from benchmarks.raw_store import Sync
from benchmarks.shim import Unavailable, restart_under_shim, running_sync_us
from shardline.runtime.collector import calm_collector

QUICK_SECONDS = 0.3
QUICK_ROUNDS = 3


class Run(Protocol):
    """One run of one side: on a store that does not exist yet, for so many seconds."""

    def __call__(self, path: Path, /, *, seconds: float) -> Rate: ...


@attrs.frozen(kw_only=True)
class Goal:
    """One line: what is measured and against what.

    Attributes:
        bar: The least ratio to raw that is good enough; None, the line is for information.
        most_commits: The most commits a message that are good enough; None, any number is.
    """

    name: str
    sync: Sync
    product: Run
    raw: Run
    bar: float | None = None
    most_commits: float | None = None


@attrs.frozen(kw_only=True)
class Result:
    """Medians over the rounds; `ratio` is the median of the rounds' own ratios.

    Attributes:
        lowest, highest: The ratios of the worst and the best round.
        is_met: Both bars are; None, there is none.
    """

    name: str
    sync: Sync
    per_s: float
    raw_per_s: float
    ratio: float
    lowest: float
    highest: float
    bar: float | None
    commits_per_message: float
    most_commits: float | None
    is_met: bool | None


def compare(goal: Goal, ours: Sequence[Rate], theirs: Sequence[Rate]) -> Result:
    """Judge a goal by its rounds.

    Args:
        ours, theirs: Shape (rounds,); the product's and raw SQLite's rate of each round.
    """
    ratios = [our.per_s / their.per_s for our, their in zip(ours, theirs, strict=True)]
    ratio = statistics.median(ratios)
    commits = statistics.median(rate.commits / rate.messages for rate in ours)
    checks: list[bool] = []
    if goal.bar is not None:
        checks.append(ratio >= goal.bar)
    if goal.most_commits is not None:
        checks.append(commits <= goal.most_commits)
    return Result(
        name=goal.name,
        sync=goal.sync,
        per_s=statistics.median(rate.per_s for rate in ours),
        raw_per_s=statistics.median(rate.per_s for rate in theirs),
        ratio=ratio,
        lowest=min(ratios),
        highest=max(ratios),
        bar=goal.bar,
        commits_per_message=commits,
        most_commits=goal.most_commits,
        is_met=all(checks) if checks else None,
    )


def measure(goal: Goal, *, rounds: int, seconds: float, folder: Path | None) -> Result:
    """Run both sides of a goal `rounds` times, in random order within each round."""
    ours: list[Rate] = []
    theirs: list[Rate] = []
    for _ in range(rounds):
        sides = [(goal.product, ours), (goal.raw, theirs)]
        random.shuffle(sides)
        for run, rates in sides:
            with tempfile.TemporaryDirectory(dir=folder) as place:
                rates.append(run(Path(place, "bench.db"), seconds=seconds))
    return compare(goal, ours, theirs)


def run_goals(name: str, title: str, goals: Sequence[Goal]) -> int:
    """The program of a set of goals: read the arguments, measure, print.

    Each sync takes the same time, NORMAL's at checkpoints too: the program starts itself anew under the library that
    does this. Without a C compiler FULL is left out.

    Returns:
        The exit status: 1, a bar was missed.
    """
    options = _arguments(name, title)
    rounds: int = options.rounds or (QUICK_ROUNDS if options.quick else 5)
    seconds: float = options.seconds or (QUICK_SECONDS if options.quick else 1.0)
    sync_us = _sync_us(options.fsync_us)
    shim = restart_under_shim(sync_us)
    if isinstance(shim, Unavailable):
        print(f"FULL is skipped, a disk of fixed latency cannot be made here: {shim.reason}", file=sys.stderr)
    # As `shardline.run` does for a bot.
    calm_collector()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if not options.json:
        print(_heading(None if shim else sync_us, rounds, seconds))
    chosen = [
        goal
        for goal in goals
        if options.only in f"{goal.sync} {goal.name}" and not (shim and goal.sync == "FULL")
    ]
    missed = 0
    for goal in chosen:
        result = measure(goal, rounds=rounds, seconds=seconds, folder=options.folder)
        missed += result.is_met is False
        print(json.dumps(attrs.asdict(result)) if options.json else as_line(result), flush=True)
    if not options.json:
        print(f"{len(chosen)} lines, {missed} missed")
    return min(missed, 1)


def as_line(result: Result) -> str:
    """One line of the table."""
    bar = "-" if result.bar is None else f"{result.bar:.3g}"
    most = "-" if result.most_commits is None else f"{result.most_commits:.3g}"
    verdict = {True: "met", False: "MISSED", None: ""}[result.is_met]
    spread = f"{result.lowest:.2f}-{result.highest:.2f}"
    return (
        f"{result.sync:6} {result.name:41} {result.per_s:8.0f} {result.raw_per_s:8.0f} {result.ratio:7.2f}"
        f" {spread:>12} {bar:>6} {result.commits_per_message:8.3f} {most:>6}  {verdict}".rstrip()
    )


def _sync_us(asked: int | None) -> int:
    if asked is not None:
        return asked
    running = running_sync_us()
    return paced_sync_us() if running is None else running


def _heading(fsync_us: int | None, rounds: int, seconds: float) -> str:
    load, _, _ = os.getloadavg()
    sync = "as long as the disk does" if fsync_us is None else f"{fsync_us} µs"
    return (
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors, load {load:.1f}; "
        f"each sync takes {sync}; {rounds} rounds of {seconds:g} s\n"
        f"{'':48} {'ours/s':>8} {'raw/s':>8} {'ratio':>7} {'of rounds':>12} {'bar':>6} {'commits':>8} {'most':>6}"
    )


def _arguments(name: str, title: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"bench {name}", description=title)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a first look")
    parser.add_argument("--seconds", type=float, help="length of one run; 1")
    parser.add_argument("--rounds", type=int, help="interleaved rounds of each goal; 5")
    parser.add_argument(
        "--fsync-us",
        type=int,
        help="length of each sync, microseconds; by default what is to this processor as 1,000 to that of the bars",
    )
    parser.add_argument("--only", default="", help="only goals whose sync and name contain this")
    parser.add_argument("--folder", type=Path, help="where the files lie; a temporary folder by default")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser.parse_args()
