"""Faults of the chains: a row that does not follow, a head or an anchor that is another row's, numbers that lack."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from ...sqlite.chain import ANCHOR_ROWS, FIRST_HEAD
from .base import Check, Limits, Severity, Tables, findings, named_faults
from .packed import packed_history
from .shared import openings_of

_LINK: Final = ("store", "shard", "hseq")
_WORD: Final = 64
_MOST_SHARDS: Final = 1_024


def find_chain_breaks(tables: Tables, limits: Limits) -> DataFrame:
    """Each row against the one before it; the segments between anchors one beside another."""
    heads = tables["shard"].select(
        "store", "shard", fn.col("hseq").alias("head_hseq"), fn.col("h").alias("head_h")
    )
    # Spark compares the first column of an order fastest, so one that tells the shards apart too comes first.
    segment = fn.expr(f"(hseq - 1) DIV {ANCHOR_ROWS} * {_MOST_SHARDS} + shard")
    before = Window.partitionBy("segment", "shard", "store").orderBy("hseq")
    rows = (
        tables["history"]
        # Packed before it is sorted: a row is then two texts of bytes, not thirteen columns.
        .select(*_LINK, "h", "at", "kind", "identity", packed_history().alias("packed"))
        .withColumn("segment", segment)
        .withColumn("_h", fn.lag("h").over(before))
        .withColumn("_hseq", fn.lag("hseq").over(before))
        .join(fn.broadcast(_anchored(tables)), list(_LINK), "left")
        .join(fn.broadcast(heads), ["store", "shard"], "left")
    )
    link = (
        fn.when(fn.col("hseq") == 1, fn.lit(bytearray(FIRST_HEAD)))
        .when(fn.col("_hseq") == fn.col("hseq") - 1, fn.col("_h"))
        .otherwise(fn.col("before_anchor"))
    )
    made = fn.unhex(fn.sha2(fn.concat(link, fn.col("packed")), 256))
    faults = {
        # Without a hash before it nothing can be said; that rows lack is the other check's.
        "changed": link.isNotNull() & (made != fn.col("h")),
        "anchor": fn.col("anchor_h") != fn.col("h"),
        "head": (fn.col("hseq") == fn.col("head_hseq")) & (fn.col("head_h") != fn.col("h")),
        "behind the head": fn.col("head_hseq").isNull() | (fn.col("hseq") > fn.col("head_hseq")),
    }
    wrong = named_faults(rows, faults)
    return findings(
        wrong,
        table="history",
        ref=fn.concat_ws("/", "shard", "hseq"),
        at=fn.col("at"),
        detail={"why": fn.col("why"), "kind": fn.col("kind"), "identity": fn.col("identity")},
    )


def _anchored(tables: Tables) -> DataFrame:
    """Rows of the history that anchors are about: `anchor_h`, the row's own; `before_anchor`, of the one before it."""
    anchors = tables["anchor"].select(*_LINK, "h")
    # What an anchor names is the row before a segment, or, after a prune, before the first row that is left.
    behind = anchors.select(
        "store", "shard", (fn.col("hseq") + 1).alias("hseq"), fn.col("h").alias("before_anchor")
    )
    return anchors.withColumnRenamed("h", "anchor_h").join(behind, list(_LINK), "full")


def find_gaps(tables: Tables, limits: Limits) -> DataFrame:
    """Buckets of a chain that do not hold as many rows as their numbers ask for."""
    # A word is one bit each of 64 numbers: whether one is there twice is told without keeping them all.
    words = (
        tables["history"]
        .groupBy("store", "shard", fn.expr(f"(hseq - 1) DIV {_WORD}").alias("word"))
        .agg(
            fn.count("*").alias("rows"),
            fn.bit_or(fn.expr(f"shiftleft(1L, CAST(pmod(hseq - 1, {_WORD}) AS INT))")).alias("bits"),
        )
    )
    found = words.groupBy("store", "shard", fn.expr(f"word DIV {ANCHOR_ROWS // _WORD}").alias("bucket")).agg(
        fn.sum("rows").alias("rows"), fn.sum(fn.bit_count("bits")).alias("numbers")
    )
    wanted = _starts(tables).withColumn(
        "bucket",
        fn.explode(fn.expr(f"sequence((first - 1) DIV {ANCHOR_ROWS}, (head - 1) DIV {ANCHOR_ROWS})")),
    )
    least = fn.greatest(fn.col("first"), fn.col("bucket") * ANCHOR_ROWS + 1)
    most = fn.least(fn.col("head"), (fn.col("bucket") + 1) * ANCHOR_ROWS)
    wrong = (
        wanted.join(found, ["store", "shard", "bucket"], "left")
        .withColumn("missing", most - least + 1 - fn.coalesce("numbers", fn.lit(0)))
        .withColumn("twice", fn.coalesce("rows", fn.lit(0)) - fn.coalesce("numbers", fn.lit(0)))
        .where("missing <> 0 OR twice <> 0")
    )
    return findings(
        wrong,
        table="history",
        ref=fn.concat_ws("/", fn.col("shard"), least),
        detail={"to": most, "missing": fn.col("missing"), "twice": fn.col("twice")},
    )


def _starts(tables: Tables) -> DataFrame:
    """Of every chain, the first number that must be there, and the last."""
    first = openings_of(tables).groupBy("store", "shard").agg(fn.min("first").alias("found"))
    anchors = tables["anchor"].select(
        "store", "shard", (fn.col("hseq") + 1).alias("found"), fn.lit(True).alias("named")
    )
    heads = tables["shard"].where("hseq > 0").select("store", "shard", fn.col("hseq").alias("head"))
    # Only a prune, which leaves an anchor below the first row, may take the beginning away.
    ends = heads.join(first, ["store", "shard"], "left").withColumn(
        "found", fn.coalesce("found", fn.col("head") + 1)
    )
    return (
        ends.join(fn.broadcast(anchors), ["store", "shard", "found"], "left")
        .withColumn("first", fn.when(fn.col("named"), fn.col("found")).otherwise(fn.lit(1)))
        .where("first <= head")
        .select("store", "shard", "first", "head")
    )


CHAIN_CHECKS: Final = (
    Check(
        name="hash_chain",
        severity=Severity.ERROR,
        tables=("history", "anchor", "shard"),
        keys=("store", "shard", "hseq", "why"),
        doc="A history row does not follow from the one before it, or is not the one that an anchor or the head names.",
        find=find_chain_breaks,
    ),
    Check(
        name="sequence_gaps",
        severity=Severity.ERROR,
        tables=("history", "anchor", "shard"),
        keys=("store", "shard", "first number of the bucket"),
        doc="Rows of a chain are missing or there twice; told by buckets of 4,096 numbers.",
        find=find_gaps,
    ),
)
