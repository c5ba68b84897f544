"""Faults of the history against itself and against the rows it is about."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from ..transitions import FINAL, TRANSITIONS
from .base import Check, Limits, Severity, Tables, findings

_ROW: Final = ("store", "kind", "identity")


def find_bad_transitions(tables: Tables, limits: Limits) -> DataFrame:
    """Transitions that no rule allows, or that do not begin where the one before ended."""
    rows = tables["history"].select(*_ROW, "shard", "hseq", "from", "to", "event", "at")
    row = Window.partitionBy(*_ROW).orderBy("hseq")
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
    broken = fn.array_compact(fn.array(*(fn.when(rule, fn.lit(name)) for name, rule in rules.items())))
    wrong = tables["outbox"].withColumn("why", fn.explode(broken))
    return findings(
        wrong, table="outbox", ref=fn.col("id"), at=fn.col("updated_at"), detail={"why": fn.col("why")}
    )


def find_unreconciled(tables: Tables, limits: Limits) -> DataFrame:
    """Messages and sends that are not as their history left them: one union, one grouping."""
    none = fn.lit(None)
    inbox = tables["inbox"].select(
        "store", fn.lit("in").alias("kind"), fn.col("id").alias("identity"), "shard", "channel", "conversation_key",
        fn.struct(fn.col("status").alias("state"), "claim").alias("row"), none.cast("bigint").alias("hseq"),
        none.cast("struct<state:string,claim:bigint>").alias("left"), fn.col("accepted_at").alias("at"),
    )  # fmt: skip
    outbox = tables["outbox"].select(
        "store", fn.lit("out").alias("kind"), fn.col("id").alias("identity"), "shard", "channel", "conversation_key",
        fn.struct(_state().alias("state"), "claim").alias("row"), none.cast("bigint").alias("hseq"),
        none.cast("struct<state:string,claim:bigint>").alias("left"), fn.col("updated_at").alias("at"),
    )  # fmt: skip
    log = tables["history"].select(
        "store", "kind", "identity", "shard", none.cast("string").alias("channel"),
        none.cast("string").alias("conversation_key"), none.cast("struct<state:string,claim:bigint>").alias("row"),
        "hseq", fn.struct(fn.col("to").alias("state"), "claim").alias("left"), "at",
    )  # fmt: skip
    rows = (
        inbox.unionByName(outbox)
        .unionByName(log)
        .groupBy(*_ROW)
        .agg(
            fn.max("shard").alias("shard"),
            fn.max("channel").alias("channel"),
            fn.max("conversation_key").alias("conversation_key"),
            fn.max("row").alias("row"),
            fn.max_by("left", "hseq").alias("left"),
            fn.max("at").alias("at"),
        )
        .join(fn.broadcast(_pruned(tables)), ["store", "shard"], "left")
    )
    wrong = rows.withColumn(
        "why",
        fn.when(
            fn.col("row").isNull(),
            fn.when(~fn.col("left.state").isin(*FINAL), fn.lit("the row is not there")),
        )
        .when(fn.col("left").isNull(), fn.when(fn.col("pruned").isNull(), fn.lit("has no history")))
        .when(fn.col("row") != fn.col("left"), fn.lit("not as its history left it")),
    ).where("why IS NOT NULL")
    return findings(
        wrong,
        table="history",
        ref=fn.concat_ws("-", "kind", "identity"),
        at=fn.col("at"),
        detail={
            "why": fn.col("why"),
            "state": fn.col("row.state"),
            "claim": fn.col("row.claim"),
            "left_state": fn.col("left.state"),
            "left_claim": fn.col("left.claim"),
        },
    )


def find_handled_out_of_order(tables: Tables, limits: Limits) -> DataFrame:
    """Messages that were done before one that stands in front of them in their conversation."""
    done = _last_event(tables, "in", ("done",))
    rows = (
        tables["inbox"].where("status = 'done'").select("store", "id", "channel", "conversation_key", "seq")
    )
    return _out_of_order(rows.join(done, ["store", "id"]), ("store", "conversation_key"), ("seq",), "inbox")


def find_sent_out_of_order(tables: Tables, limits: Limits) -> DataFrame:
    """Sends that went out before one that stands in front of them in their conversation.

    One that was ever uncertain may be passed, and is left out.
    """
    sent = _last_event(tables, "out", ("sent",))
    doubted = (
        tables["history"]
        .where("kind = 'out' AND to = 'uncertain'")
        .select("store", fn.col("identity").alias("id"))
        .distinct()
    )
    rows = (
        tables["outbox"]
        .where("status = 'sent'")
        .select("store", "id", "channel", "conversation_key", "seq", "part")
        .join(doubted, ["store", "id"], "left_anti")
    )
    lane = ("store", "channel", "conversation_key")
    return _out_of_order(rows.join(sent, ["store", "id"]), lane, ("seq", "part"), "outbox")


def _out_of_order(rows: DataFrame, lane: tuple[str, ...], order: tuple[str, ...], table: str) -> DataFrame:
    before = Window.partitionBy(*lane).orderBy(*order)
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


def _last_event(tables: Tables, kind: str, events: tuple[str, ...]) -> DataFrame:
    """The last place in the chain where each row had one of these events."""
    return (
        tables["history"]
        .where((fn.col("kind") == kind) & fn.col("event").isin(*events))
        .groupBy("store", fn.col("identity").alias("id"))
        .agg(fn.max("hseq").alias("hseq"), fn.max("at").alias("at"))
    )


def _pruned(tables: Tables) -> DataFrame:
    """Shards whose oldest history is gone."""
    first = tables["history"].groupBy("store", "shard").agg(fn.min("hseq").alias("first"))
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
