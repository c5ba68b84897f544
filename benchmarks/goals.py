"""The goals: durable publish and the whole chat path, each as a ratio to raw SQLite in the same run."""

import argparse
import json
import platform
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs

from benchmarks.product import product_chat, product_handle, product_publish
from benchmarks.raw import Rate, raw_chat, raw_handle, raw_publish
from benchmarks.raw_store import Sync
from benchmarks.shim import Unavailable, restart_under_shim
from shardline.runtime.collector import calm_collector

FSYNC_US = 1_000
Run = Callable[[Path], Rate]


@attrs.frozen(kw_only=True)
class Goal:
    """One line: what is measured, against what, and the least ratio that is good enough."""

    name: str
    sync: Sync
    bar: float
    product: Run
    raw: Run


def goals(seconds: float) -> list[Goal]:
    """All goals. The bars are 0.7 of what was set after the prototype (docs/explanation/performance.md)."""

    def publish(sync: Sync, publishers: int, bar: float) -> Goal:
        return Goal(
            name=f"publish, {publishers} at once",
            sync=sync,
            bar=bar,
            product=partial(product_publish, sync=sync, publishers=publishers, seconds=seconds),
            raw=partial(raw_publish, sync=sync, rows_per_tx=publishers, seconds=seconds),
        )

    def chat(sync: Sync, in_flight: int, conversations: int, bar: float) -> Goal:
        return Goal(
            name=f"chat, {in_flight} in flight, {conversations} conversations",
            sync=sync,
            bar=bar,
            product=partial(
                product_chat, sync=sync, in_flight=in_flight, conversations=conversations, seconds=seconds
            ),
            raw=partial(raw_chat, sync=sync, seconds=seconds),
        )

    return [
        publish("FULL", 1, 0.56),
        publish("FULL", 16, 0.525),
        publish("FULL", 256, 0.385),
        Goal(
            name="handle without an answer, 1 publisher",
            sync="FULL",
            bar=0.84,
            product=partial(product_handle, sync="FULL", conversations=2_000, seconds=seconds),
            raw=partial(raw_handle, sync="FULL", seconds=seconds),
        ),
        chat("FULL", 1, 2_000, 0.49),
        chat("FULL", 64, 2_000, 9.1),
        chat("FULL", 256, 2_000, 16.1),
        chat("FULL", 1_024, 2_000, 24.5),
        chat("FULL", 64, 24, 7.0),
        chat("NORMAL", 1, 2_000, 0.154),
        chat("NORMAL", 64, 2_000, 0.7),
        chat("NORMAL", 256, 2_000, 0.7),
    ]


@attrs.frozen(kw_only=True)
class Result:
    """Medians over the rounds; `ratio` is the median of the rounds' own ratios."""

    name: str
    sync: Sync
    per_s: float
    raw_per_s: float
    commits_per_message: float
    ratio: float
    bar: float

    @property
    def is_met(self) -> bool:
        return self.ratio >= self.bar


def measure(goal: Goal, rounds: int, folder: Path | None) -> Result:
    """Run the product and raw SQLite in turn, in random order, and compare them round by round."""
    product: list[Rate] = []
    raw: list[Rate] = []
    for _ in range(rounds):
        sides = [(goal.product, product), (goal.raw, raw)]
        random.shuffle(sides)
        for run, rates in sides:
            with tempfile.TemporaryDirectory(dir=folder) as place:
                rates.append(run(Path(place, "bench.db")))
    return Result(
        name=goal.name,
        sync=goal.sync,
        per_s=statistics.median(rate.per_s for rate in product),
        raw_per_s=statistics.median(rate.per_s for rate in raw),
        commits_per_message=statistics.median(rate.commits / rate.messages for rate in product),
        ratio=statistics.median(ours.per_s / theirs.per_s for ours, theirs in zip(product, raw, strict=True)),
        bar=goal.bar,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench goals", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one run")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds of each goal")
    parser.add_argument("--only", default="", help="only goals whose sync and name contain this")
    parser.add_argument("--folder", type=Path, help="where the files lie; a temporary folder by default")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()

    shim = restart_under_shim(FSYNC_US)
    if isinstance(shim, Unavailable):
        print(f"FULL is skipped, a disk of fixed latency cannot be made here: {shim.reason}", file=sys.stderr)
    calm_collector()
    as_json: bool = options.json
    if not as_json:
        print(
            f"Python {platform.python_version()}, {platform.machine()}; FULL: each sync takes {FSYNC_US} µs"
        )
        print(f"{'':48} {'ours/s':>8} {'raw/s':>8} {'commits':>8} {'ratio':>7} {'bar':>7}")
    missed = 0
    for goal in goals(options.seconds):
        if isinstance(shim, Unavailable) and goal.sync == "FULL":
            continue
        if options.only not in f"{goal.sync} {goal.name}":
            continue
        result = measure(goal, options.rounds, options.folder)
        missed += not result.is_met
        if as_json:
            print(json.dumps({**attrs.asdict(result), "met": result.is_met}), flush=True)
        else:
            print(
                f"{result.sync:6} {result.name:41} {result.per_s:8.0f} {result.raw_per_s:8.0f} "
                f"{result.commits_per_message:8.3f} {result.ratio:7.2f} {result.bar:7.2f}"
                f"{'' if result.is_met else '  missed'}",
                flush=True,
            )
    sys.exit(min(missed, 1))


if __name__ == "__main__":
    main()
