"""Faults of the history against itself and against the rows it is about."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from ..transitions import FINAL, TRANSITIONS
from .base import Check, Limits, Severity, Tables, findings, named_faults
from .shared import moves_of, openings_of, state_number, state_word

_ROW: Final = ("store", "kind", "identity")
_PLACE: Final = ("store", "id", "shard", "claim", "channel", "conversation_key")


def find_bad_transitions(tables: Tables, limits: Limits) -> DataFrame:
    """Transitions that no rule allows, or that do not begin where the one before ended."""
    rows = tables["history"].select(*_ROW, "shard", "hseq", "from", "to", "event", "at")
    row = Window.partitionBy("identity", "kind", "store").orderBy("hseq")
    is_allowed = fn.concat_ws("|", "kind", "from", "event", "to").isin(
        *("|".join(words) for words in sorted(TRANSITIONS))
    )
    wrong = (
        rows.withColumn("before", fn.lag("to").over(row))
        .join(fn.broadcast(_pruned(tables)), ["store", "shard"], "left")
        .withColumn(
            "why",
            fn.when(~is_allowed, fn.lit("not allowed"))
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
    """Messages and sends that are not as their history left them: one union, one join."""
    inbox = tables["inbox"].select(
        fn.lit("in").alias("kind"),
        fn.col("accepted_at").alias("row_at"),
        fn.col("status").alias("state"),
        *_PLACE,
    )
    outbox = tables["outbox"].select(
        fn.lit("out").alias("kind"), fn.col("updated_at").alias("row_at"), _state().alias("state"), *_PLACE
    )
    rows = (
        inbox.unionByName(outbox)
        .withColumnsRenamed({"id": "identity", "shard": "row_shard"})
        .join(moves_of(tables), ["identity", "kind", "store"], "full_outer")
        .withColumn("shard", fn.coalesce("row_shard", "shard"))
        .join(fn.broadcast(_pruned(tables)), ["store", "shard"], "left")
    )
    is_same = (
        # A state that no rule knows is not where a row may be.
        (fn.col("left_state") > 0)
        & (state_number(fn.col("state")) == fn.col("left_state"))
        & (fn.col("claim") == fn.col("left_claim"))
    )
    wrong = (
        rows.withColumn("left", state_word(fn.col("left_state")))
        .withColumn(
            "why",
            fn.when(
                fn.col("claim").isNull(),
                fn.when(~fn.coalesce("left", fn.lit("")).isin(*FINAL), fn.lit("the row is not there")),
            )
            .when(fn.col("hseq").isNull(), fn.when(fn.col("pruned").isNull(), fn.lit("has no history")))
            .when(~is_same, fn.lit("not as its history left it")),
        )
        .where("why IS NOT NULL")
    )
    return findings(
        wrong,
        table="history",
        ref=fn.concat_ws("-", "kind", "identity"),
        at=fn.greatest("at", "row_at"),
        detail={
            "why": fn.col("why"),
            "state": fn.col("state"),
            "claim": fn.col("claim"),
            "left_state": fn.col("left"),
            "left_claim": fn.col("left_claim"),
        },
    )


def find_handled_out_of_order(tables: Tables, limits: Limits) -> DataFrame:
    """Messages that were done before one that stands in front of them in their conversation."""
    done = _ends(tables, "in")
    rows = (
        tables["inbox"].where("status = 'done'").select("store", "id", "channel", "conversation_key", "seq")
    )
    return _out_of_order(rows.join(done, ["store", "id"]), ("store", "conversation_key"), ("seq",), "inbox")


def find_sent_out_of_order(tables: Tables, limits: Limits) -> DataFrame:
    """Sends that went out before one that stands in front of them in their conversation.

    One that was ever uncertain may be passed, and is left out.
    """
    sent = _ends(tables, "out").where("NOT doubted")
    rows = (
        tables["outbox"]
        .where("status = 'sent'")
        .select("store", "id", "channel", "conversation_key", "seq", "part")
    )
    lane = ("store", "channel", "conversation_key")
    return _out_of_order(rows.join(sent, ["store", "id"]), lane, ("seq", "part"), "outbox")


def _out_of_order(rows: DataFrame, lane: tuple[str, ...], order: tuple[str, ...], table: str) -> DataFrame:
    before = Window.partitionBy(*reversed(lane)).orderBy(*order)
    late = (
        rows.withColumn("before_id", fn.lag("id").over(before))
        .withColumn("before_hseq", fn.lag("hseq").over(before))
        .where("before_hseq > hseq")
    )
    return findings(
        late,
        table=table,
        ref=fn.col("id"),
        at=fn.col("at"),
        detail={"before_id": fn.col("before_id"), "seq": fn.col("seq")},
    )


def _ends(tables: Tables, kind: str) -> DataFrame:
    """The last place in the chain where each row was done, or sent."""
    return (
        moves_of(tables)
        .where((fn.col("kind") == kind) & fn.col("ended_hseq").isNotNull())
        .select(
            "store",
            fn.col("identity").alias("id"),
            fn.col("ended_hseq").alias("hseq"),
            fn.col("ended_at").alias("at"),
            "doubted",
        )
    )


def _pruned(tables: Tables) -> DataFrame:
    """Shards whose oldest history is gone."""
    first = openings_of(tables).groupBy("store", "shard").agg(fn.min("first").alias("first"))
    heads = tables["shard"].select("store", "shard", fn.col("hseq").alias("head"))
    return (
        heads.join(first, ["store", "shard"], "left")
        .where("coalesce(first, head + 1) > 1")
        .select("store", "shard", fn.lit(True).alias("pruned"))
    )


def _state() -> Column:
    return fn.expr(
        "CASE WHEN purged_at IS NOT NULL THEN 'purged' WHEN dead_at IS NOT NULL AND status = 'failed' THEN 'dead'"
        " WHEN status <> 'pending' THEN status WHEN in_flight = 1 THEN 'flying'"
        " WHEN uncertain_since IS NOT NULL THEN 'uncertain' ELSE 'ready' END"
    )


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
