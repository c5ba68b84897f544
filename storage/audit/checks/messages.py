"""Faults of the inbox: no end, no answer, two owners; and dead letters that grow."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from .base import Check, Limits, Severity, Tables, age_s, findings, hour
from .shared import openings_of, with_accounts

_HOUR_US: Final = 3_600_000_000


def find_without_outcome(tables: Tables, limits: Limits) -> DataFrame:
    """Messages that wait, or run, and have not moved although they were due."""
    since = fn.greatest("accepted_at", "started_at", "next_at")
    left = (
        tables["inbox"]
        .where("status IN ('queued', 'running', 'failed')")
        .join(fn.broadcast(tables["stores"]), "store")
        .withColumn("moved_at", since)
        .withColumn("age_s", age_s("moved_at"))
        .where(fn.col("age_s") > limits.stuck_s)
    )
    return findings(
        left,
        table="inbox",
        ref=fn.col("id"),
        at=fn.col("accepted_at"),
        detail={"status": fn.col("status"), "topic": fn.col("topic"), "age_s": fn.col("age_s").cast("long")},
    )


def find_unanswered(tables: Tables, limits: Limits) -> DataFrame:
    """Messages of a channel that are done, and no send names them."""
    answered = tables["outbox"].where("inbox_id IS NOT NULL").select("store", fn.col("inbox_id").alias("id"))
    silent = (
        tables["inbox"]
        .where("status = 'done' AND channel IS NOT NULL")
        .join(answered, ["store", "id"], "left_anti")
    )
    return findings(
        silent, table="inbox", ref=fn.col("id"), at=fn.col("done_at"), detail={"topic": fn.col("topic")}
    )


def find_two_owners(tables: Tables, limits: Limits) -> DataFrame:
    """Places of a chain where an older opening of the store wrote behind a newer one."""
    # An opening of the store is a few rows, so where each begins is found without sorting the chains.
    openings = openings_of(tables)
    newer = openings.select(
        "store", "shard", fn.col("instance").alias("newer"), fn.col("first").alias("after")
    )
    passed = (
        openings.join(newer, ["store", "shard"])
        .where("newer > instance")
        .groupBy("store", "shard", "instance")
        .agg(fn.min("after").alias("after"))
    )
    late = (
        tables["history"]
        .select("store", "shard", "hseq", "instance", "at")
        .join(fn.broadcast(passed), ["store", "shard", "instance"])
        .where("hseq > after")
        .drop("after")
        .join(fn.broadcast(newer), ["store", "shard"])
        .where("after < hseq")
        .groupBy("store", "shard", "hseq", "instance", "at")
        .agg(fn.max("newer").alias("newest"))
    )
    return findings(
        late,
        table="history",
        ref=fn.concat_ws("/", "shard", "hseq"),
        at=fn.col("at"),
        detail={"instance": fn.col("instance"), "newest": fn.col("newest")},
    )


def find_shared_conversations(tables: Tables, limits: Limits) -> DataFrame:
    """Turns of one conversation in one store while another store had a turn of it."""
    done = (
        tables["inbox"]
        .where("status = 'done' AND channel IS NOT NULL")
        .select("store", "id", "channel", "conversation_key", "started_at", "done_at")
    )
    turns = with_accounts(tables, done)
    lane = ["channel", "account", "conversation_key"]
    many = turns.groupBy(*lane).agg(fn.min("store").alias("a"), fn.max("store").alias("b")).where("a <> b")
    shared = turns.join(many.select(*lane), lane, "left_semi")
    other = shared.select(
        *lane,
        fn.col("store").alias("other_store"),
        fn.col("id").alias("other_id"),
        fn.col("started_at").alias("other_start"),
        fn.col("done_at").alias("other_end"),
    )
    spans = (
        shared.join(other, lane)
        .where("other_store <> store AND other_end > started_at")
        .where("other_start < started_at OR (other_start = started_at AND other_store < store)")
        .groupBy("store", "id", *lane, "started_at")
        .agg(fn.min(fn.struct("other_store", "other_id")).alias("other"))
    )
    return findings(
        spans,
        table="inbox",
        ref=fn.col("id"),
        at=fn.col("started_at"),
        detail={"other_store": fn.col("other.other_store"), "other_id": fn.col("other.other_id")},
    )


def find_dead_letter_growth(tables: Tables, limits: Limits) -> DataFrame:
    """Hours with many more dead letters than the day before them."""
    dead = (
        _dead(tables)
        .groupBy("store", "channel", hour("dead_at").alias("hour"))
        .agg(fn.count("*").alias("rows"))
    )
    day = Window.partitionBy("store", "channel").orderBy("hour").rangeBetween(-24 * _HOUR_US, -_HOUR_US)
    grown = dead.withColumn("mean", fn.coalesce(fn.sum("rows").over(day), fn.lit(0)) / 24).where(
        (fn.col("rows") >= limits.dead_rows) & (fn.col("rows") > limits.dead_times * fn.col("mean"))
    )
    return findings(
        grown,
        table="hour",
        ref=fn.concat_ws("/", fn.coalesce("channel", fn.lit("-")), "hour"),
        at=fn.col("hour"),
        detail={"rows": fn.col("rows"), "mean": fn.round("mean", 2)},
    )


def _dead(tables: Tables) -> DataFrame:
    columns = ("store", "channel", "dead_at")
    return (
        tables["inbox"].select(*columns).union(tables["outbox"].select(*columns)).where("dead_at IS NOT NULL")
    )


MESSAGE_CHECKS: Final = (
    Check(
        name="inbox_without_outcome",
        severity=Severity.ERROR,
        tables=("inbox",),
        keys=("store", "ref_id"),
        doc="A message has been due for longer than `stuck_s` and has no end.",
        find=find_without_outcome,
    ),
    Check(
        name="inbox_unanswered",
        severity=Severity.WARNING,
        tables=("inbox", "outbox"),
        keys=("store", "ref_id"),
        doc="A message of a channel is done and no send came of it; only for bots that always answer.",
        find=find_unanswered,
        on=False,
    ),
    Check(
        name="double_ownership",
        severity=Severity.ERROR,
        tables=("history",),
        keys=("store", "shard", "hseq"),
        doc="An older opening of the store wrote into a chain behind a newer one.",
        find=find_two_owners,
    ),
    Check(
        name="shared_conversation",
        severity=Severity.ERROR,
        tables=("inbox",),
        keys=("store", "ref_id"),
        doc="Two stores had a turn of the same conversation of one account at the same time.",
        find=find_shared_conversations,
    ),
    Check(
        name="dead_letter_growth",
        severity=Severity.WARNING,
        tables=("inbox", "outbox"),
        keys=("store", "channel", "hour"),
        doc="An hour has at least `dead_rows` dead letters and `dead_times` the mean of the day before.",
        find=find_dead_letter_growth,
    ),
)
