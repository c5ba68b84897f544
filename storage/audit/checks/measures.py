"""Counts and times for the report."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from .base import Measure, Tables, hour

_TOP: Final = 10


def measure_attempts(tables: Tables) -> DataFrame:
    """How many sends took how many attempts."""
    return tables["outbox"].groupBy("channel", "status", "attempts").agg(F.count("*").alias("rows"))


def measure_latency(tables: Tables) -> DataFrame:
    """Percentiles by channel and hour: from accepted to done, and from decided to sent, in microseconds."""
    handled = (
        tables["inbox"]
        .where("status = 'done'")
        .select(
            "channel",
            F.lit("handle").alias("kind"),
            F.col("done_at").alias("at"),
            (F.col("done_at") - F.col("accepted_at")).alias("us"),
        )
    )
    sent = (
        tables["outbox"]
        .where("status = 'sent'")
        .select(
            "channel",
            F.lit("send").alias("kind"),
            F.col("sent_at").alias("at"),
            (F.col("sent_at") - F.col("created_at")).alias("us"),
        )
    )
    return (
        handled.unionByName(sent)
        .groupBy("kind", "channel", hour("at").alias("hour"))
        .agg(
            F.count("*").alias("rows"),
            *(
                F.percentile_approx("us", share).alias(name)
                for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
            ),
            F.max("us").alias("max"),
        )
    )


def measure_failures(tables: Tables) -> DataFrame:
    """The most frequent codes of each channel, of rows whose newest failure it is."""
    columns = ("channel", "error_code", "own_code")
    rows = (
        tables["inbox"]
        .select(F.lit("in").alias("kind"), *columns)
        .unionByName(tables["outbox"].select(F.lit("out").alias("kind"), *columns))
        .where("error_code IS NOT NULL")
        .groupBy("kind", "channel", F.coalesce("own_code", "error_code").alias("code"))
        .agg(F.count("*").alias("rows"))
    )
    place = Window.partitionBy("kind", "channel").orderBy(F.col("rows").desc(), "code")
    return rows.withColumn("place", F.row_number().over(place)).where(F.col("place") <= _TOP)


def measure_backlog(tables: Tables) -> DataFrame:
    """Rows that came and rows that ended, by kind and hour."""
    ended = F.coalesce("done_at", "dead_at")
    columns = ("kind", "at", "came", "ended")
    parts = [
        tables["inbox"].select(F.lit("in").alias("kind"), F.col("accepted_at").alias("at"), F.lit(1).alias("came"), F.lit(0).alias("ended")),
        tables["inbox"].select(F.lit("in").alias("kind"), ended.alias("at"), F.lit(0).alias("came"), F.lit(1).alias("ended")),
        tables["outbox"].select(F.lit("out").alias("kind"), F.col("created_at").alias("at"), F.lit(1).alias("came"), F.lit(0).alias("ended")),
        tables["outbox"].select(F.lit("out").alias("kind"), F.coalesce("sent_at", "dead_at").alias("at"), F.lit(0).alias("came"), F.lit(1).alias("ended")),
    ]  # fmt: skip
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionByName(part)
    return (
        rows.select(*columns)
        .where("at IS NOT NULL")
        .groupBy("kind", hour("at").alias("hour"))
        .agg(F.sum("came").alias("came"), F.sum("ended").alias("ended"))
    )


def measure_dead_letters(tables: Tables) -> DataFrame:
    """Dead letters by hour and code."""
    columns = ("dead_at", "error_code")
    return (
        tables["inbox"]
        .select(*columns)
        .unionByName(tables["outbox"].select(*columns))
        .where("dead_at IS NOT NULL")
        .groupBy(hour("dead_at").alias("hour"), F.col("error_code").alias("code"))
        .agg(F.count("*").alias("rows"))
    )


def measure_pauses(tables: Tables) -> DataFrame:
    """Turns and sends that were put off, by hour and code: rate limits, open breakers."""
    return (
        tables["history"]
        .where("event = 'defer'")
        .groupBy("kind", "code", hour("at").alias("hour"))
        .agg(F.count("*").alias("rows"))
    )


MEASURES: Final = (
    Measure(name="attempts", tables=("outbox",), doc="How many sends took how many attempts, by channel and status.", measure=measure_attempts),
    Measure(name="latency", tables=("inbox", "outbox"), doc="Percentiles of handling and of sending, by channel and hour, in microseconds.", measure=measure_latency),
    Measure(name="failures", tables=("inbox", "outbox"), doc="The most frequent codes of each channel.", measure=measure_failures),
    Measure(name="backlog", tables=("inbox", "outbox"), doc="What came and what ended, by hour.", measure=measure_backlog),
    Measure(name="dead_letters", tables=("inbox", "outbox"), doc="Dead letters by hour and code.", measure=measure_dead_letters),
    Measure(name="pauses", tables=("history",), doc="Turns and sends that were put off, by hour and code.", measure=measure_pauses),
)  # fmt: skip
