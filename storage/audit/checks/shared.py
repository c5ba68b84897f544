"""What several checks need, made once a run: a row a message or send, a conversation, an opening and chain."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from ..transitions import TRANSITIONS
from .base import Tables

_STATES: Final = tuple(sorted({after for *_, after in TRANSITIONS}))
_ARRIVALS: Final = ("sent", "reconcile-sent", "resolve-sent")
_RULES: Final = tuple("|".join(words) for words in sorted(TRANSITIONS))
_STATE_BITS: Final = 5
_STEP_BITS: Final = 2 * _STATE_BITS
_STATE_MASK: Final = (1 << _STATE_BITS) - 1
_KEY: Final = ("store_key", "kind", "identity")
_ROW_COLUMNS: Final = ("row_state", "row_claim", "row_at", "row_shard", "seq", "part", "lane", "line")
_OF_ROWS: Final = frozenset({"inbox", "outbox"})


def moves_of(tables: Tables) -> DataFrame:
    """One row a message or send that has a history, or is in a table that is there.

    `store_key`, see `with_stores`, `kind`, `identity`.
    Of its history, null without one: `shard`; `hseq`, `left_state` (a number, see `state_number`), `left_claim` and
    `at` of its last row; `arrivals` and `arrived_at`, how often and when last the channel had it; `ended_hseq` and
    `ended_at` of its last `done` or `sent`; `doubted`, it was ever uncertain; `suspect`, one of its rows may break the
    rules; where it is false none does.
    Of the row itself, null without one: `row_state`, `row_claim`, `row_at`, `row_shard`, `seq`, `part`; `lane`, see
    `lanes_of`, and `line`, within which it has its place.
    """
    kept = tables.get("moves")
    return _moves(tables) if kept is None else kept


def openings_of(tables: Tables) -> DataFrame:
    """One row a chain and opening of the store that wrote into it: `store`, `shard`, `instance`, `first` number."""
    kept = tables.get("openings")
    return _openings(tables) if kept is None else kept


def lanes_of(tables: Tables) -> DataFrame:
    """One row a channel and conversation of a store: `lane`, `store`, `channel`, `conversation_key`."""
    kept = tables.get("lanes")
    return _lanes(tables) if kept is None else kept


def with_stores(tables: Tables, found: DataFrame) -> DataFrame:
    """Rows of `moves_of` with their `store`."""
    stores = tables["stores"].select("store", _store_key())
    return found.join(fn.broadcast(stores), "store_key", "left")


def with_accounts(tables: Tables, rows: DataFrame) -> DataFrame:
    """Rows with the `account` of their store on their `channel`; empty where it has none.

    Stores of several bots may hold the same keys and conversations of one platform.
    """
    accounts = tables["stores"].select("store", fn.explode("accounts").alias("channel", "account"))
    joined = rows.join(fn.broadcast(accounts), ["store", "channel"], "left")
    return joined.withColumn("account", fn.coalesce("account", fn.lit("")))


def pruned_of(tables: Tables) -> DataFrame:
    """Shards whose oldest history is gone."""
    first = openings_of(tables).groupBy("store", "shard").agg(fn.min("first").alias("first"))
    heads = tables["shard"].select("store", "shard", fn.col("hseq").alias("head"))
    return (
        heads.join(first, ["store", "shard"], "left")
        .where("coalesce(first, head + 1) > 1")
        .select("store", "shard", fn.lit(True).alias("pruned"))
    )


@contextmanager
def sharing(tables: Tables) -> Generator[Mapping[str, DataFrame]]:
    """Tables, and beside them what checks share, kept while they run.

    What is kept spills to the workers' disks; nothing is made that no check asks for.
    """
    if "history" not in tables:
        yield tables
        return
    names = SHARED.keys() if tables.keys() & _OF_ROWS else SHARED.keys() - {"lanes"}
    kept = {name: SHARED[name](tables).persist() for name in names}
    try:
        yield {**tables, **kept}
    finally:
        for frame in kept.values():
            frame.unpersist()


def is_allowed() -> Column:
    """Whether a rule allows a row of the history."""
    return fn.concat_ws("|", "kind", "from", "event", "to").isin(*_RULES)


def state_number(state: Column) -> Column:
    """The number of a state; 0 is none that a rule knows."""
    # Spark groups numbers by hash, and sorts what holds texts.
    return fn.coalesce(fn.array_position(fn.array(*map(fn.lit, _STATES)), state), fn.lit(0))


def state_word(number: Column) -> Column:
    """The state of a number."""
    return fn.when(number > 0, fn.element_at(fn.array(*map(fn.lit, _STATES)), number.cast("int")))


def send_state() -> Column:
    """The state of an outbox row, as the history names it."""
    return fn.expr(
        "CASE WHEN purged_at IS NOT NULL THEN 'purged' WHEN dead_at IS NOT NULL AND status = 'failed' THEN 'dead'"
        " WHEN status <> 'pending' THEN status WHEN in_flight = 1 THEN 'flying'"
        " WHEN uncertain_since IS NOT NULL THEN 'uncertain' ELSE 'ready' END"
    )


def _moves(tables: Tables) -> DataFrame:
    # Rows and their history meet in one grouping: no table is sorted for a join. Only numbers are kept beside the key,
    # since Spark groups numbers by hash, and sorts what holds texts. The store is a number too: shorter to send.
    parts = [_steps(tables["history"])]
    if "inbox" in tables:
        parts.append(
            _rows(
                tables["inbox"],
                "in",
                fn.col("status"),
                "accepted_at",
                fn.xxhash64("store", "conversation_key"),
            )
        )
    if "outbox" in tables:
        parts.append(_rows(tables["outbox"], "out", send_state(), "updated_at", _lane()))
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    if len(parts) == 1:
        every = every.withColumns({name: fn.lit(None).cast("long") for name in _ROW_COLUMNS})
    first, last = fn.min("step"), fn.max("step")
    # Of rows that lie apart Spark would group next to nothing before it sends them, at the price of grouping all.
    return (
        every.repartition(*_KEY)
        .groupBy(*_KEY)
        .agg(
            fn.max("shard").alias("shard"),
            fn.max("at").alias("at"),
            fn.shiftright(last, _STEP_BITS).alias("hseq"),
            _after(last).alias("left_state"),
            fn.max_by("claim", "step").alias("left_claim"),
            fn.count_if("arrived").alias("arrivals"),
            fn.max(fn.when(fn.col("arrived"), fn.col("at"))).alias("arrived_at"),
            fn.max(fn.when(fn.col("ended"), fn.shiftright("step", _STEP_BITS))).alias("ended_hseq"),
            fn.max(fn.when(fn.col("ended"), fn.col("at"))).alias("ended_at"),
            fn.max("doubted").alias("doubted"),
            (fn.max("broken") | _may_not_follow(first, last)).alias("suspect"),
            *(fn.max(name).alias(name) for name in _ROW_COLUMNS),
        )
    )


def _may_not_follow(first: Column, last: Column) -> Column:
    """Whether rows may not begin with the first, and follow from one another; of up to three it is known."""
    count = fn.count("step")
    # What is in all three but not in the outer two is the one between them.
    middle = fn.bit_xor("step").bitwiseXOR(first).bitwiseXOR(last)
    return (
        (count > 3)
        | (_before(first) != 0)
        | ((count == 2) & (_before(last) != _after(first)))
        | ((count == 3) & ((_before(middle) != _after(first)) | (_before(last) != _after(middle))))
    )


def _before(step: Column) -> Column:
    return fn.shiftright(step, _STATE_BITS).bitwiseAND(_STATE_MASK)


def _after(step: Column) -> Column:
    return step.bitwiseAND(_STATE_MASK)


def _steps(history: DataFrame) -> DataFrame:
    kind, event = fn.col("kind"), fn.col("event")
    # From and to ride in the low bits of the number, the last one lowest; a new row comes from none.
    states = fn.shiftleft(state_number(fn.col("from")), _STATE_BITS) + state_number(fn.col("to"))
    return history.select(
        _store_key(),
        "kind",
        "identity",
        "shard",
        "claim",
        "at",
        (fn.shiftleft("hseq", _STEP_BITS) + states).alias("step"),
        (~is_allowed()).alias("broken"),
        ((kind == "out") & event.isin(*_ARRIVALS)).alias("arrived"),
        (((kind == "in") & (event == "done")) | ((kind == "out") & (event == "sent"))).alias("ended"),
        (fn.col("to") == "uncertain").alias("doubted"),
    )


def _rows(table: DataFrame, kind: str, state: Column, at: str, line: Column) -> DataFrame:
    return table.select(
        _store_key(),
        fn.lit(kind).alias("kind"),
        fn.col("id").alias("identity"),
        state_number(state).cast("long").alias("row_state"),
        fn.col("claim").alias("row_claim"),
        fn.col(at).alias("row_at"),
        fn.col("shard").alias("row_shard"),
        "seq",
        "part",
        _lane().alias("lane"),
        line.alias("line"),
    )


def _lanes(tables: Tables) -> DataFrame:
    parts = [
        tables[name].select("store", "channel", "conversation_key")
        for name in sorted(_OF_ROWS & tables.keys())
    ]
    return reduce(DataFrame.union, parts).distinct().withColumn("lane", _lane())


def _lane() -> Column:
    # In 64 bits even many millions of conversations do not meet.
    return fn.xxhash64("store", "channel", "conversation_key")


def _store_key() -> Column:
    return fn.xxhash64("store").alias("store_key")


def _openings(tables: Tables) -> DataFrame:
    return tables["history"].groupBy("store", "shard", "instance").agg(fn.min("hseq").alias("first"))


SHARED: Final[Mapping[str, Callable[[Tables], DataFrame]]] = {
    "moves": _moves,
    "openings": _openings,
    "lanes": _lanes,
}
"""What stands beside the tables of a check that reads the history."""
