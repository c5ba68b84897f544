"""Faults of the outbox: sent twice, said twice, never sent, never decided."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from .base import Check, Limits, Severity, Tables, age_s, findings
from .shared import moves_of, with_accounts, with_stores

_IDENTITY: Final = ("channel", "idempotency_key", "part")


def find_duplicate_sends(tables: Tables, limits: Limits) -> DataFrame:
    """Rows that share an identity and were sent, in one store or several; each row but the first one."""
    sent = (
        tables["outbox"]
        .where("status = 'sent'")
        .select("store", "id", "conversation_key", "sent_at", *_IDENTITY)
    )
    # Spark compares the first column of an order fastest, so the one that differs most comes first.
    same = Window.partitionBy("idempotency_key", "part", "channel", "account").orderBy(
        "sent_at", "store", "id"
    )
    again = (
        with_accounts(tables, sent)
        .withColumn("first_store", fn.first("store").over(same))
        .withColumn("first_id", fn.first("id").over(same))
        .withColumn("n", fn.row_number().over(same))
        .where("n > 1")
    )
    return findings(
        again,
        table="outbox",
        ref=fn.col("id"),
        at=fn.col("sent_at"),
        detail={name: fn.col(name) for name in ("idempotency_key", "part", "first_store", "first_id")},
    )


def find_repeated_sends(tables: Tables, limits: Limits) -> DataFrame:
    """Sends whose history says more than once that the channel has them."""
    again = with_stores(tables, moves_of(tables).where("arrivals > 1"))
    return findings(
        again,
        table="outbox",
        ref=fn.col("identity"),
        at=fn.col("arrived_at"),
        detail={"times": fn.col("arrivals")},
    )


def find_duplicate_content(tables: Tables, limits: Limits) -> DataFrame:
    """The same content to the same conversation within a short time, under another key."""
    sent = (
        tables["outbox"]
        .where("status = 'sent' AND content_hash IS NOT NULL")
        .select("store", "id", "channel", "conversation_key", "content_hash", "idempotency_key", "sent_at")
    )
    same = Window.partitionBy("content_hash", "conversation_key", "channel", "account").orderBy(
        "sent_at", "store", "id"
    )
    again = (
        with_accounts(tables, sent)
        .withColumn("before_at", fn.lag("sent_at").over(same))
        .withColumn("before_store", fn.lag("store").over(same))
        .withColumn("before_id", fn.lag("id").over(same))
        .withColumn("before_key", fn.lag("idempotency_key").over(same))
        .where(fn.col("sent_at") - fn.col("before_at") <= limits.repeat_s * 1_000_000)
        .where("before_key <> idempotency_key")
    )
    return findings(
        again,
        table="outbox",
        ref=fn.col("id"),
        at=fn.col("sent_at"),
        detail={
            "before_store": fn.col("before_store"),
            "before_id": fn.col("before_id"),
            "apart_us": fn.col("sent_at") - fn.col("before_at"),
        },
    )


def find_stuck_sends(tables: Tables, limits: Limits) -> DataFrame:
    """Sends that wait, or fly, and have not moved although they were due."""
    waiting = tables["outbox"].where("status <> 'sent' AND dead_at IS NULL AND uncertain_since IS NULL")
    moved = fn.greatest("updated_at", "next_attempt_at")
    stuck = (
        waiting.join(fn.broadcast(tables["stores"]), "store")
        .withColumn("moved_at", moved)
        .withColumn("age_s", age_s("moved_at"))
        .where(fn.col("age_s") > limits.stuck_s)
    )
    return findings(
        stuck,
        table="outbox",
        ref=fn.col("id"),
        at=fn.col("updated_at"),
        detail={
            "status": fn.col("status"),
            "in_flight": fn.col("in_flight"),
            "attempts": fn.col("attempts"),
            "age_s": fn.col("age_s").cast("long"),
        },
    )


def find_open_uncertain(tables: Tables, limits: Limits) -> DataFrame:
    """Uncertain sends that nobody has decided."""
    left = (
        tables["outbox"]
        .where("uncertain_since IS NOT NULL AND status = 'pending'")
        .join(fn.broadcast(tables["stores"]), "store")
        .withColumn("age_s", age_s("uncertain_since"))
        .where(fn.col("age_s") > limits.uncertain_s)
    )
    return findings(
        left,
        table="outbox",
        ref=fn.col("id"),
        at=fn.col("uncertain_since"),
        detail={"attempts": fn.col("attempts"), "age_s": fn.col("age_s").cast("long")},
    )


SEND_CHECKS: Final = (
    Check(
        name="duplicate_sends",
        severity=Severity.ERROR,
        tables=("outbox",),
        keys=("store", "ref_id"),
        doc="A send was made under the channel, account, key and part of another one that was made, in any store.",
        find=find_duplicate_sends,
    ),
    Check(
        name="repeated_sends",
        severity=Severity.ERROR,
        tables=("history",),
        keys=("store", "ref_id"),
        doc="The history of one send says more than once that the channel has it.",
        find=find_repeated_sends,
    ),
    Check(
        name="duplicate_content",
        severity=Severity.WARNING,
        tables=("outbox",),
        keys=("store", "ref_id"),
        doc="The same content went to one conversation again within `repeat_s`, under another key.",
        find=find_duplicate_content,
    ),
    Check(
        name="stuck_pending",
        severity=Severity.ERROR,
        tables=("outbox",),
        keys=("store", "ref_id"),
        doc="A send has been due for longer than `stuck_s` and has not moved.",
        find=find_stuck_sends,
    ),
    Check(
        name="uncertain_open",
        severity=Severity.WARNING,
        tables=("outbox",),
        keys=("store", "ref_id"),
        doc="An uncertain send has waited for a decision for longer than `uncertain_s`.",
        find=find_open_uncertain,
    ),
)
