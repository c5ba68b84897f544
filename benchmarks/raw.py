"""SQLite with the product's schema and row writes, in one thread: what the product is measured against."""

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs

from benchmarks.raw_store import RawStore, Sync
from benchmarks.shim import Unavailable, restart_under_shim


@attrs.frozen(kw_only=True)
class Rate:
    """What one run did: messages and commits in `took_s` seconds."""

    messages: int
    commits: int
    took_s: float

    @property
    def per_s(self) -> float:
        return self.messages / self.took_s


def raw_publish(db_path: Path, sync: Sync, rows_per_tx: int, seconds: float) -> Rate:
    """Accept messages, `rows_per_tx` to a transaction: an inbox row and a history row each.

    Args:
        db_path: A file that does not exist yet.
        sync: SQLite's `synchronous`.
        rows_per_tx: Messages in one transaction, >= 1.
        seconds: How long; the transaction begun last is finished.
    """
    store = RawStore(db_path, sync)

    def step() -> None:
        with store.transaction():
            store.accept(rows_per_tx, claim=False)

    return _run(store, step, seconds)


def raw_chat(db_path: Path, sync: Sync, seconds: float) -> Rate:
    """A message's whole life, one message at a time, in the three transactions that the product needs for it.

    Accepted and claimed (inbox, history); done (inbox, state, outbox, two of history); sent (outbox, history).

    Args:
        db_path: A file that does not exist yet.
        sync: SQLite's `synchronous`.
        seconds: How long; the message begun last is finished.
    """
    store = RawStore(db_path, sync)

    def step() -> None:
        with store.transaction():
            (n,) = store.accept(1, claim=True)
        with store.transaction():
            store.complete(n)
        with store.transaction():
            store.record_sent(n)

    return _run(store, step, seconds)


def raw_handle(db_path: Path, sync: Sync, seconds: float) -> Rate:
    """A message that gets no answer, in the two transactions that the product needs for it.

    Args:
        db_path: A file that does not exist yet.
        sync: SQLite's `synchronous`.
        seconds: How long; the message begun last is finished.
    """
    store = RawStore(db_path, sync)

    def step() -> None:
        with store.transaction():
            (n,) = store.accept(1, claim=True)
        with store.transaction():
            store.finish(n)

    return _run(store, step, seconds)


def _run(store: RawStore, step: Callable[[], None], seconds: float) -> Rate:
    start_s = time.perf_counter()
    while time.perf_counter() - start_s < seconds:
        step()
    took_s = time.perf_counter() - start_s
    store.close()
    return Rate(messages=store.accepted, commits=store.commits, took_s=took_s)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench raw", description=__doc__)
    parser.add_argument("--sync", choices=("FULL", "NORMAL"), default="FULL")
    parser.add_argument("--fsync-us", type=int, help="run with this fixed latency of each sync, microseconds")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16, 256], help="rows per transaction")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one run")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds; medians are printed")
    parser.add_argument("--folder", type=Path, help="where the files lie; a temporary folder by default")
    options = parser.parse_args()
    if options.fsync_us is not None:
        shim = restart_under_shim(options.fsync_us)
        if isinstance(shim, Unavailable):
            sys.exit(f"no fixed sync latency here: {shim.reason}")

    sync: Sync = options.sync
    seconds: float = options.seconds
    cases: dict[str, Callable[[Path], Rate]] = {"raw_chat": partial(raw_chat, sync=sync, seconds=seconds)}
    for rows in options.rows:
        cases[f"raw_publish_{rows}"] = partial(raw_publish, sync=sync, rows_per_tx=rows, seconds=seconds)
    rates: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(options.rounds):
        for name in random.sample(list(cases), len(cases)):
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                rates[name].append(cases[name](Path(folder, "raw.db")).per_s)
    for name, found in rates.items():
        line = {
            "bench": name,
            "sync": sync,
            "fsync_us": options.fsync_us,
            "messages_per_s": round(statistics.median(found)),
            "lowest": round(min(found)),
            "highest": round(max(found)),
            "rounds": options.rounds,
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        }
        print(json.dumps(line))


if __name__ == "__main__":
    main()
