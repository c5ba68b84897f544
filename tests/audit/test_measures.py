"""What the measures count, on rows whose counts are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import pytest

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")

from pyspark.sql.types import LongType, StringType, StructField, StructType

from shardline.storage.audit.checks import measures
from shardline.storage.audit.exported import make_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from shardline.storage.audit.checks.base import Tables

pytestmark = pytest.mark.spark

HOUR_US = 3_600_000_000
Cell = str | int | None


def frame(spark: SparkSession, columns: str, rows: Sequence[tuple[Cell, ...]]) -> DataFrame:
    """A table; `name:s` is a text, any other column a number."""
    fields = [
        StructField(word.removesuffix(":s"), StringType() if word.endswith(":s") else LongType())
        for word in columns.split()
    ]
    return make_frame(spark, rows, StructType(fields))


def told(found: DataFrame, columns: str) -> set[tuple[Cell, ...]]:
    rows = cast("list[tuple[Cell, ...]]", [tuple(row) for row in found.select(*columns.split()).collect()])
    assert len(rows) == len(set(rows))
    return set(rows)


def test_sends_by_attempts(spark: SparkSession) -> None:
    rows = [("a", "sent", 1), ("a", "sent", 1), ("a", "sent", 3), ("b", "failed", 3)]
    tables: Tables = {"outbox": frame(spark, "channel:s status:s attempts", rows)}

    assert told(measures.measure_attempts(tables), "channel status attempts rows") == {
        ("a", "sent", 1, 2),
        ("a", "sent", 3, 1),
        ("b", "failed", 3, 1),
    }


def test_times_by_channel_and_hour(spark: SparkSession) -> None:
    handled = [("a", "done", 5, 5 + us) for us in range(1, 101)]
    late = ("a", "done", 0, HOUR_US + 7)
    sent = [("a", "sent", HOUR_US, HOUR_US + us) for us in (10, 20, 30)]
    tables: Tables = {
        "inbox": frame(
            spark, "channel:s status:s accepted_at done_at", [*handled, late, ("a", "queued", 5, None)]
        ),
        "outbox": frame(spark, "channel:s status:s created_at sent_at", [*sent, ("a", "failed", 5, None)]),
    }

    assert told(measures.measure_latency(tables), "kind channel hour rows p50 p95 p99 max") == {
        ("handle", "a", 0, 100, 50, 95, 99, 100),
        ("handle", "a", HOUR_US, 1, HOUR_US + 7, HOUR_US + 7, HOUR_US + 7, HOUR_US + 7),
        ("send", "a", HOUR_US, 3, 20, 30, 30, 30),
    }


def test_the_ten_most_frequent_codes_of_a_channel(spark: SparkSession) -> None:
    many = [("a", "HANDLER_FAILED", f"own.{n:02}") for n in range(12) for _ in range(20 - n)]
    inbox = [*many, ("a", None, None), ("b", "CRASH_LOOP", None)]
    outbox = [("a", "RATE_LIMITED", None)] * 2
    columns = "channel:s error_code:s own_code:s"
    tables: Tables = {"inbox": frame(spark, columns, inbox), "outbox": frame(spark, columns, outbox)}

    assert told(measures.measure_failures(tables), "kind channel code rows place") == {
        *(("in", "a", f"own.{n:02}", 20 - n, n + 1) for n in range(10)),
        ("in", "b", "CRASH_LOOP", 1, 1),
        ("out", "a", "RATE_LIMITED", 2, 1),
    }


def test_what_came_and_what_ended(spark: SparkSession) -> None:
    inbox = [(1, HOUR_US, None), (2, None, HOUR_US + 1), (3, None, None)]
    outbox = [(HOUR_US, HOUR_US, None), (HOUR_US, None, 2 * HOUR_US)]
    tables: Tables = {
        "inbox": frame(spark, "accepted_at done_at dead_at", inbox),
        "outbox": frame(spark, "created_at sent_at dead_at", outbox),
    }

    assert told(measures.measure_backlog(tables), "kind hour came ended") == {
        ("in", 0, 3, 0),
        ("in", HOUR_US, 0, 2),
        ("out", HOUR_US, 2, 1),
        ("out", 2 * HOUR_US, 0, 1),
    }


def test_dead_letters_by_hour_and_code(spark: SparkSession) -> None:
    tables: Tables = {
        "inbox": frame(spark, "dead_at error_code:s", [(1, "X"), (2, "X"), (HOUR_US, "X"), (None, "X")]),
        "outbox": frame(spark, "dead_at error_code:s", [(3, "X"), (4, "Y")]),
    }

    assert told(measures.measure_dead_letters(tables), "hour code rows") == {
        (0, "X", 3),
        (0, "Y", 1),
        (HOUR_US, "X", 1),
    }


def test_pauses_by_hour_and_code(spark: SparkSession) -> None:
    rows = [
        ("out", "defer", "RATE_LIMITED", 1),
        ("out", "defer", "RATE_LIMITED", 2),
        ("out", "defer", "RATE_LIMITED", HOUR_US),
        ("in", "defer", "BREAKER_OPEN", 1),
        ("out", "sent", None, 1),
    ]
    tables: Tables = {"history": frame(spark, "kind:s event:s code:s at", rows)}

    assert told(measures.measure_pauses(tables), "kind code hour rows") == {
        ("out", "RATE_LIMITED", 0, 2),
        ("out", "RATE_LIMITED", HOUR_US, 1),
        ("in", "BREAKER_OPEN", 0, 1),
    }
