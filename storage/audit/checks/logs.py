"""Faults between inbox, log and outbox: offsets that lack or are there twice, and answers to no message."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from ....actors.message import DIALOGUE_TOPICS
from .base import Check, Limits, Severity, Tables, findings
from .shared import pruned_of

_LOG: Final = ("store", "topic", "part")
_WORD_BITS: Final = 5
_WORD: Final = 1 << _WORD_BITS
"""Offsets that are looked at together, one bit of a number each; a word has no sign to take care of."""
_MOST: Final = (1 << 63) - 1
_LATER_US: Final = 60_000_000
"""A message of a turn came at a time of the turn; its history says when it was committed, which is a bit later."""


def find_log_gaps(tables: Tables, limits: Limits) -> DataFrame:
    """Offsets of a log that lack, or that more than one row has; above those that retention took."""
    return _gaps_in(tables, "event").union(_gaps_in(tables, "inbox"))


def _gaps_in(tables: Tables, name: str) -> DataFrame:
    # Nothing is sorted but words, of which there are few.
    bit = fn.expr(f"shiftleft(1L, CAST(pmod(off, {_WORD}) AS INT))")
    words = (
        tables[name]
        .groupBy(*_LOG, fn.shiftright("off", _WORD_BITS).alias("word"))
        .agg(fn.count("*").alias("rows"), fn.bit_or(bit).alias("bits"), fn.bit_xor(bit).alias("odd"))
    )
    # Whatever somebody wrote there, no sum may leave 64 bits: the check would fail, and find nothing.
    taken = tables["log_end"].select(*_LOG, (fn.least("off", fn.lit(_MOST - 1)) + 1).alias("least"))
    log = Window.partitionBy(*_LOG).orderBy("word")
    placed = (
        words.join(fn.broadcast(taken), list(_LOG), "left")
        # Retention takes no offset above the one it names; below it, it leaves rows that are open or have a key.
        .withColumn("least", fn.coalesce("least", fn.lit(0)))
        .where(fn.col("word") >= fn.shiftright("least", _WORD_BITS))
        .withColumn("begin", fn.greatest(fn.col("least"), fn.col("word") * _WORD))
        .withColumn(
            "after", fn.greatest("least", (fn.coalesce(fn.lag("word").over(log), fn.lit(-1)) + 1) * _WORD)
        )
        .withColumn("is_last", fn.lead("word").over(log).isNull())
        .withColumn("have", fn.expr(f"bits DIV shiftleft(1L, CAST(begin - word * {_WORD} AS INT))"))
    )
    # Behind the last row nothing lacks that anything here could tell of.
    width = fn.when(
        fn.col("is_last"), fn.when(fn.col("have") > 0, fn.length(fn.bin("have"))).otherwise(0)
    ).otherwise((fn.col("word") + 1) * _WORD - fn.col("begin"))
    before = fn.col("begin") - fn.col("after")
    missing = before + (width - fn.bit_count("have"))
    twice = fn.col("rows") - fn.bit_count("bits")
    lowest_unset = fn.col("begin") + _lowest_bit(fn.expr("~have"))
    lowest_twice = fn.col("word") * _WORD + _lowest_bit(fn.expr("bits & ~odd"))
    faults = fn.array(
        fn.when(
            missing > 0,
            _fault("missing", fn.when(before > 0, fn.col("after")).otherwise(lowest_unset), missing),
        ),
        # A row that is there three times is told of by the first offset of its word.
        fn.when(
            twice > 0,
            _fault(
                "twice",
                fn.when(fn.col("bits") == fn.col("odd"), fn.col("begin")).otherwise(lowest_twice),
                twice,
            ),
        ),
    )
    wrong = placed.where((missing > 0) | (twice > 0)).withColumn(
        "fault", fn.explode(fn.array_compact(faults))
    )
    return findings(
        wrong,
        table=name,
        ref=fn.concat_ws("/", "topic", "part", "fault.off"),
        detail={"why": fn.col("fault.why"), "rows": fn.col("fault.rows")},
    )


def _fault(why: str, off: Column, rows: Column) -> Column:
    return fn.struct(fn.lit(why).alias("why"), off.alias("off"), rows.alias("rows"))


def _lowest_bit(bits: Column) -> Column:
    """The place of the lowest bit that is set."""
    return fn.bit_count(bits.bitwiseAND(-bits) - 1)


def find_unasked_answers(tables: Tables, limits: Limits) -> DataFrame:
    """Sends of a message's turn whose message is not there, although retention cannot have taken it.

    Retention looks at sends first, then at messages, and a send may end later than its message: so the message may go
    one pass earlier. The log says up to when the messages came that it took.
    """
    answers = tables["outbox"].where("inbox_id IS NOT NULL").select("store", "id", "inbox_id", "created_at")
    there = tables["inbox"].select("store", fn.col("id").alias("inbox_id"))
    left = answers.join(there, ["store", "inbox_id"], "left_anti")
    # They are few, mostly none: then the history is not read at all.
    asked = fn.broadcast(left.select("store", "inbox_id").distinct())
    came = (
        tables["history"]
        .where("kind = 'in' AND `from` = ''")
        .select("store", fn.col("identity").alias("inbox_id"), "at")
        .join(asked, ["store", "inbox_id"])
        .groupBy("store", "inbox_id")
        .agg(fn.min("at").alias("came_at"))
    )
    taken = (
        tables["log_end"]
        .where(fn.col("topic").isin(*sorted(DIALOGUE_TOPICS)))
        .groupBy("store")
        .agg(fn.max("ts").alias("taken_at"))
    )
    cut = pruned_of(tables).select("store", "pruned").distinct()
    wrong = (
        left.join(came, ["store", "inbox_id"], "left")
        .join(fn.broadcast(taken), "store", "left")
        .join(fn.broadcast(cut), "store", "left")
        .withColumn(
            "why",
            fn.when(fn.col("taken_at").isNull(), fn.lit("no message was ever taken away"))
            .when(
                fn.try_subtract("came_at", fn.lit(_LATER_US)) > fn.col("taken_at"),
                fn.lit("none that came so late was taken away"),
            )
            .when(fn.col("came_at").isNull() & fn.col("pruned").isNull(), fn.lit("there never was one")),
        )
        .where("why IS NOT NULL")
    )
    return findings(
        wrong,
        table="outbox",
        ref=fn.col("id"),
        at=fn.col("created_at"),
        detail={"inbox_id": fn.col("inbox_id"), "why": fn.col("why")},
    )


LOG_CHECKS: Final = (
    Check(
        name="log_gaps",
        severity=Severity.ERROR,
        tables=("inbox", "event", "log_end"),
        keys=("store", "topic", "part", "offset", "why"),
        doc="Offsets of a log are missing or there twice; told by 32 offsets, above those that retention took.",
        find=find_log_gaps,
    ),
    Check(
        name="answer_without_message",
        severity=Severity.ERROR,
        tables=("inbox", "outbox", "history", "shard", "log_end"),
        keys=("store", "ref_id"),
        doc="The message that a send answers is not there, and retention cannot have taken it.",
        find=find_unasked_answers,
    ),
)
