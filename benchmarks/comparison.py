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

from benchmarks.pace import REFERENCE_SYNC_US, set_pace, set_sync_us
from benchmarks.raw import Rate
from benchmarks.raw_store import Sync
from benchmarks.shim import Unavailable, restart_under_shim
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
        sync_us: Length of a sync where it followed the processor's pace, microseconds.
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
    sync_us: int | None = None


def compare(goal: Goal, ours: Sequence[Rate], theirs: Sequence[Rate], syncs_us: Sequence[int] = ()) -> Result:
    """Judge a goal by its rounds.

    Args:
        ours, theirs: Shape (rounds,); the product's and raw SQLite's rate of each round.
        syncs_us: Shape (rounds,); the length of a sync in each round, microseconds; empty, all had one.
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
        sync_us=round(statistics.median(syncs_us)) if syncs_us else None,
    )


def measure(goal: Goal, *, rounds: int, seconds: float, folder: Path | None, is_paced: bool) -> Result:
    """Run both sides of a goal `rounds` times, in random order within each round.

    Args:
        is_paced: The length of a sync is set by the processor's pace before each round.
    """
    ours: list[Rate] = []
    theirs: list[Rate] = []
    syncs_us: list[int] = []
    for _ in range(rounds):
        if is_paced:
            syncs_us.append(set_pace(folder))
        sides = [(goal.product, ours), (goal.raw, theirs)]
        random.shuffle(sides)
        for run, rates in sides:
            with tempfile.TemporaryDirectory(dir=folder) as place:
                rates.append(run(Path(place, "bench.db"), seconds=seconds))
    return compare(goal, ours, theirs, syncs_us)


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
    fixed_us: int | None = options.fsync_us
    shim = restart_under_shim(REFERENCE_SYNC_US if fixed_us is None else fixed_us)
    if isinstance(shim, Unavailable):
        print(f"FULL is skipped, a disk of fixed latency cannot be made here: {shim.reason}", file=sys.stderr)
    # As `shardline.run` does for a bot.
    calm_collector()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if not options.json:
        print(_heading(_sync_text(fixed_us, shim), rounds, seconds))
    chosen = [
        goal
        for goal in goals
        if options.only in f"{goal.sync} {goal.name}" and not (shim and goal.sync == "FULL")
    ]
    missed = 0
    for goal in chosen:
        is_paced = goal.sync == "FULL" and fixed_us is None
        result = measure(goal, rounds=rounds, seconds=seconds, folder=options.folder, is_paced=is_paced)
        if is_paced:
            set_sync_us(REFERENCE_SYNC_US)
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
    sync = "-" if result.sync_us is None else f"{result.sync_us}"
    return (
        f"{result.sync:6} {result.name:41} {sync:>6} {result.per_s:8.0f} {result.raw_per_s:8.0f} {result.ratio:7.2f}"
        f" {spread:>12} {bar:>6} {result.commits_per_message:8.3f} {most:>6}  {verdict}".rstrip()
    )


def _sync_text(fixed_us: int | None, shim: Unavailable | None) -> str:
    if shim is not None:
        return "as long as the disk does"
    if fixed_us is not None:
        return f"{fixed_us} µs"
    return (
        f"{REFERENCE_SYNC_US} µs, under FULL what is as much to this processor as that to the one of the bars"
    )


def _heading(sync: str, rounds: int, seconds: float) -> str:
    load, _, _ = os.getloadavg()
    return (
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} processors, load {load:.1f}; "
        f"each sync takes {sync}; "
        f"{rounds} rounds of {seconds:g} s\n"
        f"{'':48} {'sync':>6} {'ours/s':>8} {'raw/s':>8} {'ratio':>7} {'of rounds':>12} {'bar':>6} {'commits':>8}"
        f" {'most':>6}"
    )


def _arguments(name: str, title: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"bench {name}", description=title)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: a first look")
    parser.add_argument("--seconds", type=float, help="length of one run; 1")
    parser.add_argument("--rounds", type=int, help="interleaved rounds of each goal; 5")
    parser.add_argument(
        "--fsync-us",
        type=int,
        help="length of each sync, microseconds; by default 1,000, and under FULL as much as the processor is slower",
    )
    parser.add_argument("--only", default="", help="only goals whose sync and name contain this")
    parser.add_argument("--folder", type=Path, help="where the files lie; a temporary folder by default")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser.parse_args()
