"""Counts and times for the report."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from .base import Measure, Tables, hour

_TOP: Final = 10


def measure_attempts(tables: Tables) -> DataFrame:
    """How many sends took how many attempts."""
    return tables["outbox"].groupBy("channel", "status", "attempts").agg(fn.count("*").alias("rows"))


def measure_latency(tables: Tables) -> DataFrame:
    """Percentiles by channel and hour: from accepted to done, and from decided to sent, in microseconds."""
    handled = (
        tables["inbox"]
        .where("status = 'done'")
        .select(
            "channel",
            fn.lit("handle").alias("kind"),
            fn.col("done_at").alias("at"),
            (fn.col("done_at") - fn.col("accepted_at")).alias("us"),
        )
    )
    sent = (
        tables["outbox"]
        .where("status = 'sent'")
        .select(
            "channel",
            fn.lit("send").alias("kind"),
            fn.col("sent_at").alias("at"),
            (fn.col("sent_at") - fn.col("created_at")).alias("us"),
        )
    )
    return (
        handled.unionByName(sent)
        .groupBy("kind", "channel", hour("at").alias("hour"))
        .agg(
            fn.count("*").alias("rows"),
            *(
                fn.percentile_approx("us", share).alias(name)
                for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
            ),
            fn.max("us").alias("max"),
        )
    )


def measure_failures(tables: Tables) -> DataFrame:
    """The most frequent codes of each channel, of rows whose newest failure it is."""
    columns = ("channel", "error_code", "own_code")
    rows = (
        tables["inbox"]
        .select(fn.lit("in").alias("kind"), *columns)
        .unionByName(tables["outbox"].select(fn.lit("out").alias("kind"), *columns))
        .where("error_code IS NOT NULL")
        .groupBy("kind", "channel", fn.coalesce("own_code", "error_code").alias("code"))
        .agg(fn.count("*").alias("rows"))
    )
    place = Window.partitionBy("kind", "channel").orderBy(fn.col("rows").desc(), "code")
    return rows.withColumn("place", fn.row_number().over(place)).where(fn.col("place") <= _TOP)


def measure_backlog(tables: Tables) -> DataFrame:
    """Rows that came and rows that ended, by kind and hour."""
    parts = [
        _counted(tables["inbox"], "in", fn.col("accepted_at"), "came"),
        _counted(tables["inbox"], "in", fn.coalesce("done_at", "dead_at"), "ended"),
        _counted(tables["outbox"], "out", fn.col("created_at"), "came"),
        _counted(tables["outbox"], "out", fn.coalesce("sent_at", "dead_at"), "ended"),
    ]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionByName(part)
    return (
        rows.where("at IS NOT NULL")
        .groupBy("kind", hour("at").alias("hour"))
        .agg(fn.sum("came").alias("came"), fn.sum("ended").alias("ended"))
    )


def _counted(rows: DataFrame, kind: str, at: Column, what: str) -> DataFrame:
    return rows.select(
        fn.lit(kind).alias("kind"),
        at.alias("at"),
        *(fn.lit(int(name == what)).alias(name) for name in ("came", "ended")),
    )


def measure_dead_letters(tables: Tables) -> DataFrame:
    """Dead letters by hour and code."""
    columns = ("dead_at", "error_code")
    return (
        tables["inbox"]
        .select(*columns)
        .unionByName(tables["outbox"].select(*columns))
        .where("dead_at IS NOT NULL")
        .groupBy(hour("dead_at").alias("hour"), fn.col("error_code").alias("code"))
        .agg(fn.count("*").alias("rows"))
    )


def measure_pauses(tables: Tables) -> DataFrame:
    """Turns and sends that were put off, by hour and code: rate limits, open breakers."""
    return (
        tables["history"]
        .where("event = 'defer'")
        .groupBy("kind", "code", hour("at").alias("hour"))
        .agg(fn.count("*").alias("rows"))
    )


MEASURES: Final = (
    Measure(
        name="attempts",
        tables=("outbox",),
        doc="Sends by channel, status and number of attempts.",
        measure=measure_attempts,
    ),
    Measure(
        name="latency",
        tables=("inbox", "outbox"),
        doc="Percentiles of handling and sending, by channel and hour.",
        measure=measure_latency,
    ),
    Measure(
        name="failures",
        tables=("inbox", "outbox"),
        doc="The most frequent codes of each channel.",
        measure=measure_failures,
    ),
    Measure(
        name="backlog",
        tables=("inbox", "outbox"),
        doc="What came and what ended, by hour.",
        measure=measure_backlog,
    ),
    Measure(
        name="dead_letters",
        tables=("inbox", "outbox"),
        doc="Dead letters by hour and code.",
        measure=measure_dead_letters,
    ),
    Measure(
        name="pauses", tables=("history",), doc="What was put off, by hour and code.", measure=measure_pauses
    ),
)
