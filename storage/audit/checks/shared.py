"""What several checks need of the history, made once a run: one row a message or send, one row an opening and chain."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from ..transitions import TRANSITIONS
from .base import Tables

_STATES: Final = tuple(sorted({after for *_, after in TRANSITIONS}))
_ARRIVALS: Final = ("sent", "reconcile-sent", "resolve-sent")
_ENDS: Final = (("in", "done"), ("out", "sent"))


def moves_of(tables: Tables) -> DataFrame:
    """One row a message or send with a history.

    `store`, `kind`, `identity`, `shard`; `hseq`, `left_state` (a number, see `state_number`), `left_claim` and `at` of
    its last row; `arrivals` and `arrived_at`, how often and when last the channel had it; `ended_hseq` and `ended_at`
    of its last `done` or `sent`; `doubted`, it was ever uncertain.
    """
    kept = tables.get("moves")
    return _moves(tables["history"]) if kept is None else kept


def openings_of(tables: Tables) -> DataFrame:
    """One row a chain and opening of the store that wrote into it: `store`, `shard`, `instance`, `first` number."""
    kept = tables.get("openings")
    return _openings(tables["history"]) if kept is None else kept


@contextmanager
def sharing(tables: Tables) -> Generator[Mapping[str, DataFrame]]:
    """Tables, and beside them what checks share, kept while they run.

    What is kept spills to the workers' disks; nothing is made that no check asks for.
    """
    history = tables.get("history")
    if history is None:
        yield tables
        return
    kept = {name: make(history).persist() for name, make in SHARED.items()}
    try:
        yield {**tables, **kept}
    finally:
        for frame in kept.values():
            frame.unpersist()


def state_number(state: Column) -> Column:
    """The number of a state; 0 is none that a rule knows."""
    # Spark groups numbers by hash, and sorts what holds texts.
    return fn.coalesce(fn.array_position(fn.array(*map(fn.lit, _STATES)), state), fn.lit(0))


def state_word(number: Column) -> Column:
    """The state of a number."""
    return fn.when(number > 0, fn.element_at(fn.array(*map(fn.lit, _STATES)), number.cast("int")))


def _moves(history: DataFrame) -> DataFrame:
    kind, event = fn.col("kind"), fn.col("event")
    has_arrived = (kind == "out") & event.isin(*_ARRIVALS)
    has_ended = fn.concat_ws("|", kind, event).isin(*("|".join(one) for one in _ENDS))
    return history.groupBy("store", "kind", "identity").agg(
        fn.max("shard").alias("shard"),
        fn.max("hseq").alias("hseq"),
        fn.max_by(state_number(fn.col("to")), fn.col("hseq")).alias("left_state"),
        fn.max_by("claim", "hseq").alias("left_claim"),
        fn.max("at").alias("at"),
        fn.count(fn.when(has_arrived, 1)).alias("arrivals"),
        fn.max(fn.when(has_arrived, fn.col("at"))).alias("arrived_at"),
        fn.max(fn.when(has_ended, fn.col("hseq"))).alias("ended_hseq"),
        fn.max(fn.when(has_ended, fn.col("at"))).alias("ended_at"),
        fn.max(fn.col("to") == "uncertain").alias("doubted"),
    )


def _openings(history: DataFrame) -> DataFrame:
    return history.groupBy("store", "shard", "instance").agg(fn.min("hseq").alias("first"))


SHARED: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {"moves": _moves, "openings": _openings}
"""What stands beside the tables of a check that reads the history."""
