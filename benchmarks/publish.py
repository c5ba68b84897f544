"""Durable publish, as a ratio to raw SQLite that stores the same rows in the same batches."""

import sys
from functools import partial

from benchmarks.comparison import Goal, run_goals
from benchmarks.product import product_handle, product_publish
from benchmarks.raw import raw_handle, raw_publish
from benchmarks.raw_store import Sync

PUBLISHERS = (1, 16, 64, 256)
BARS: dict[tuple[Sync, int], float] = {("FULL", 1): 0.56, ("FULL", 16): 0.525, ("FULL", 256): 0.385}
"""0.7 of what was set after the prototype (docs/explanation/performance.md)."""


def publish_goals() -> list[Goal]:
    """Publishing from so many tasks at once, and the one publisher whose messages are handled without an answer.

    Raw puts one message of each publisher into a transaction: the fullest batch that the product could make.
    """
    syncs: tuple[Sync, ...] = ("FULL", "NORMAL")
    goals = [
        Goal(
            name=f"publish, {publishers} at once",
            sync=sync,
            bar=BARS.get((sync, publishers)),
            product=partial(product_publish, sync=sync, publishers=publishers),
            raw=partial(raw_publish, sync=sync, rows_per_tx=publishers),
        )
        for sync in syncs
        for publishers in PUBLISHERS
    ]
    handled = Goal(
        name="handle without an answer, 1 publisher",
        sync="FULL",
        bar=0.84,
        product=partial(product_handle, sync="FULL", conversations=2_000),
        raw=partial(raw_handle, sync="FULL"),
    )
    return [*goals, handled]


if __name__ == "__main__":
    sys.exit(run_goals("publish", __doc__ or "", publish_goals()))
