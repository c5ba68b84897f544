"""What a check is: a pure function from the exported tables to a table, with what people need to know of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from ..schemas import FINDING


class Severity(enum.StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    WARNING = "warning"


@attrs.frozen(kw_only=True)
class Limits:
    """What counts as long, or as many.

    Attributes:
        stuck_s: A message or send that has not moved for so long, counted from the copy, is stuck.
        uncertain_s: An uncertain send may wait so long for a decision.
        repeat_s: Two sends of the same text to one conversation within this are a repeat.
        dead_rows: Fewer dead letters an hour are no growth.
        dead_times: That many times the mean of the day before is growth.
    """

    stuck_s: int = 900
    uncertain_s: int = 3_600
    repeat_s: int = 10
    dead_rows: int = 20
    dead_times: int = 4


DEFAULT_LIMITS: Final = Limits()

Tables = Mapping[str, DataFrame]
"""The tables that a check asked for, by name; `stores` is always there."""


@attrs.frozen(kw_only=True)
class Check:
    """Finds faults.

    Attributes:
        name: Its word in the command and the tables.
        severity: Of its findings.
        tables: What it reads.
        keys: What makes a finding its own: columns, or fields of the detail.
        doc: One sentence: what it finds.
        find: Tables -> findings, with the columns of `FINDING`.
        on: Runs unless asked otherwise.
    """

    name: str
    severity: Severity
    tables: tuple[str, ...]
    keys: tuple[str, ...]
    doc: str
    find: Callable[[Tables, Limits], DataFrame]
    on: bool = True


@attrs.frozen(kw_only=True)
class Measure:
    """Counts: tables for the report, no faults."""

    name: str
    tables: tuple[str, ...]
    doc: str
    measure: Callable[[Tables], DataFrame]


def findings(
    found: DataFrame,
    *,
    table: str,
    ref: Column,
    at: Column | None = None,
    detail: Mapping[str, Column] | None = None,
) -> DataFrame:
    """Bring rows into the shape of `FINDING`.

    Args:
        found: One row a fault, with `store`; `channel` and `conversation_key` where it has them.
        table: The table that `ref` is of.
        ref: Which row is meant.
        at: When, microseconds.
        detail: What else there is to say.
    """
    said = [value.alias(name) for name, value in (detail or {}).items()]
    columns = {
        "store": fn.col("store"),
        "channel": fn.col("channel") if "channel" in found.columns else fn.lit(None),
        "conversation_key": fn.col("conversation_key")
        if "conversation_key" in found.columns
        else fn.lit(None),
        "ref_table": fn.lit(table),
        "ref_id": ref,
        "at": fn.lit(None) if at is None else at,
        "detail": fn.to_json(fn.struct(*said)) if said else fn.lit("{}"),
    }
    return found.select(
        *(columns[field.name].cast(field.dataType).alias(field.name) for field in FINDING.fields)
    )


def named_faults(rows: DataFrame, faults: Mapping[str, Column]) -> DataFrame:
    """Rows with a fault, once for each that they have, its name in `why`.

    Args:
        rows: All of them.
        faults: Which are wrong, by name; null is not wrong.
    """
    is_wrong = fn.lit(False)
    for fault in faults.values():
        is_wrong |= fn.coalesce(fault, fn.lit(False))
    names = fn.array_compact(fn.array(*(fn.when(fault, fn.lit(name)) for name, fault in faults.items())))
    # Spark makes no code of what makes the list: it is made for the rows that have something to tell.
    return rows.where(is_wrong).withColumn("why", fn.explode(names))


def age_s(since: str) -> Column:
    """Seconds from a time to the copy, whose `taken_at` must be there."""
    return (fn.col("taken_at") - fn.col(since)) / 1_000_000


def hour(at: str) -> Column:
    """The hour of a time, as microseconds."""
    return fn.col(at) - fn.pmod(fn.col(at), fn.lit(3_600_000_000))
