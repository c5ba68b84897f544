"""Faults of the history against itself and against the rows it is about."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from ..transitions import FINAL
from .base import Check, Limits, Severity, Tables, findings, named_faults
from .shared import is_allowed, lanes_of, moves_of, pruned_of, state_number, state_word, with_stores

_ROW: Final = ("store", "kind", "identity")
_BUCKETS: Final = 1 << 20


def find_bad_transitions(tables: Tables, limits: Limits) -> DataFrame:
    """Transitions that no rule allows, or that do not begin where the one before ended."""
    row = Window.partitionBy("identity", "kind", "store").orderBy("hseq")
    wrong = (
        _suspects(tables)
        .withColumn("before", fn.lag("to").over(row))
        .join(fn.broadcast(pruned_of(tables)), ["store", "shard"], "left")
        .withColumn(
            "why",
            fn.when(~is_allowed(), fn.lit("not allowed"))
            .when(
                fn.col("before").isNotNull() & (fn.col("from") != fn.col("before")), fn.lit("does not follow")
            )
            # The first row of a message or send may be below a prune.
            .when(
                fn.col("before").isNull() & (fn.col("from") != "") & fn.col("pruned").isNull(),
                fn.lit("has no beginning"),
            ),
        )
        .where("why IS NOT NULL")
    )
    return findings(
        wrong,
        table="history",
        ref=fn.concat_ws("/", "shard", "hseq"),
        at=fn.col("at"),
        detail={name: fn.col(name) for name in ("kind", "identity", "from", "event", "to", "before", "why")},
    )


def _suspects(tables: Tables) -> DataFrame:
    """Rows of the history whose message or send is a suspect, and some others."""
    # In buckets, of which there are never too many to send to all; where there are none, Spark reads no history.
    bucket = fn.pmod(fn.xxhash64("kind", "identity"), fn.lit(_BUCKETS)).alias("bucket")
    buckets = moves_of(tables).where("suspect").select(bucket).distinct()
    return (
        tables["history"]
        .select(*_ROW, "shard", "hseq", "from", "to", "event", "at", bucket)
        .join(fn.broadcast(buckets), "bucket", "left_semi")
    )


def find_impossible_rows(tables: Tables, limits: Limits) -> DataFrame:
    """Sends whose columns contradict each other."""
    rules: dict[str, Column] = {
        "sent without a time": fn.expr("status = 'sent' AND sent_at IS NULL"),
        "sent before it was made": fn.expr("status = 'sent' AND sent_at < created_at AND claim = 0"),
        "flying and not pending": fn.expr("in_flight = 1 AND status <> 'pending'"),
        "flying and uncertain": fn.expr("in_flight = 1 AND uncertain_since IS NOT NULL"),
        "dead and not failed": fn.expr("dead_at IS NOT NULL AND status = 'sent' AND generation = 0"),
        "purged and not dead": fn.expr("purged_at IS NOT NULL AND dead_at IS NULL"),
        "more attempts than starts": fn.expr("attempts > claim OR attempts < 0"),
        "no such status": fn.expr("status NOT IN ('pending', 'sent', 'failed')"),
    }
    wrong = named_faults(tables["outbox"], rules)
    return findings(
        wrong, table="outbox", ref=fn.col("id"), at=fn.col("updated_at"), detail={"why": fn.col("why")}
    )


def find_unreconciled(tables: Tables, limits: Limits) -> DataFrame:
    """Messages and sends that are not as their history left them."""
    is_same = (
        # A state that no rule knows is not where a row may be.
        (fn.col("left_state") > 0)
        & (fn.col("row_state") == fn.col("left_state"))
        & (fn.col("row_claim") == fn.col("left_claim"))
    )
    left = moves_of(tables).where(fn.col("row_claim").isNull() | fn.col("hseq").isNull() | ~is_same)
    wrong = (
        with_stores(tables, left)
        .withColumn("shard", fn.coalesce("row_shard", "shard"))
        .join(fn.broadcast(pruned_of(tables)), ["store", "shard"], "left")
        .withColumn("left", state_word(fn.col("left_state")))
        .withColumn(
            "why",
            fn.when(
                fn.col("row_claim").isNull(),
                fn.when(~fn.coalesce("left", fn.lit("")).isin(*FINAL), fn.lit("the row is not there")),
            )
            .when(fn.col("hseq").isNull(), fn.when(fn.col("pruned").isNull(), fn.lit("has no history")))
            .when(~is_same, fn.lit("not as its history left it")),
        )
        .where("why IS NOT NULL")
    )
    return findings(
        wrong.join(lanes_of(tables), ["store", "lane"], "left"),
        table="history",
        ref=fn.concat_ws("-", "kind", "identity"),
        at=fn.greatest("at", "row_at"),
        detail={
            "why": fn.col("why"),
            "state": state_word(fn.col("row_state")),
            "claim": fn.col("row_claim"),
            "left_state": fn.col("left"),
            "left_claim": fn.col("left_claim"),
        },
    )


def find_handled_out_of_order(tables: Tables, limits: Limits) -> DataFrame:
    """Messages that were done before one that stands in front of them in their conversation."""
    done = _ends(tables, "in", "done")
    return _out_of_order(tables, done, "inbox")


def find_sent_out_of_order(tables: Tables, limits: Limits) -> DataFrame:
    """Sends that went out before one that stands in front of them in their conversation.

    One that was ever uncertain may be passed, and is left out.
    """
    sent = _ends(tables, "out", "sent").where("NOT doubted")
    return _out_of_order(tables, sent, "outbox")


def _out_of_order(tables: Tables, ends: DataFrame, table: str) -> DataFrame:
    before = Window.partitionBy("line").orderBy("seq", "part")
    late = (
        ends.select("lane", "line", "seq", "part", "identity", "ended_hseq", "ended_at")
        .withColumn("before_id", fn.lag("identity").over(before))
        .withColumn("before_hseq", fn.lag("ended_hseq").over(before))
        .where("before_hseq > ended_hseq")
    )
    return findings(
        late.join(lanes_of(tables), "lane", "left"),
        table=table,
        ref=fn.col("identity"),
        at=fn.col("ended_at"),
        detail={"before_id": fn.col("before_id"), "seq": fn.col("seq")},
    )


def _ends(tables: Tables, kind: str, state: str) -> DataFrame:
    """Rows that are in their last state, with the last place in the chain where they came into it."""
    is_there = (fn.col("kind") == kind) & (fn.col("row_state") == state_number(fn.lit(state)))
    return moves_of(tables).where(is_there & fn.col("ended_hseq").isNotNull())


HISTORY_CHECKS: Final = (
    Check(
        name="state_violations",
        severity=Severity.ERROR,
        tables=("history", "shard"),
        keys=("store", "shard", "hseq"),
        doc="A transition that no rule allows, that does not follow from the one before, or has no beginning.",
        find=find_bad_transitions,
    ),
    Check(
        name="impossible_rows",
        severity=Severity.ERROR,
        tables=("outbox",),
        keys=("store", "ref_id", "why"),
        doc="The columns of a send contradict each other.",
        find=find_impossible_rows,
    ),
    Check(
        name="reconciliation",
        severity=Severity.ERROR,
        tables=("inbox", "outbox", "history", "shard"),
        keys=("store", "ref_id"),
        doc="A message or send is not as its history left it, has none, or is not there.",
        find=find_unreconciled,
    ),
    Check(
        name="handled_out_of_order",
        severity=Severity.ERROR,
        tables=("inbox", "history"),
        keys=("store", "ref_id"),
        doc="A message was done before the one in front of it in its conversation, by `seq`.",
        find=find_handled_out_of_order,
    ),
    Check(
        name="sent_out_of_order",
        severity=Severity.ERROR,
        tables=("outbox", "history"),
        keys=("store", "ref_id"),
        doc="A send went out before the one in front of it in its conversation, by `seq`.",
        find=find_sent_out_of_order,
    ),
)
