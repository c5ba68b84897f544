"""Faults of the chains: a row that does not follow, a head or an anchor that is another row's, numbers that lack."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ...sqlite.chain import ANCHOR_ROWS, FIRST_HEAD
from .base import Check, Limits, Severity, Tables, findings
from .packed import packed_history

_LINK: Final = ("store", "shard", "hseq")


def find_chain_breaks(tables: Tables, limits: Limits) -> DataFrame:
    """Each row against the one before it; the segments between anchors one beside another."""
    anchors = tables["anchor"].select(
        "store", "shard", F.col("hseq").alias("anchor_hseq"), F.col("h").alias("anchor_h")
    )
    heads = tables["shard"].select(
        "store", "shard", F.col("hseq").alias("head_hseq"), F.col("h").alias("head_h")
    )
    segment = Window.partitionBy("store", "shard", "segment").orderBy("hseq")
    # What an anchor names is the row before a segment, or, after a prune, before the first row that is left.
    before = anchors.withColumn("hseq", F.col("anchor_hseq") + 1).select(
        *_LINK, F.col("anchor_h").alias("before_anchor")
    )
    named = anchors.select("store", "shard", F.col("anchor_hseq").alias("hseq"), "anchor_h")
    rows = (
        tables["history"]
        .withColumn("segment", F.expr(f"(hseq - 1) DIV {ANCHOR_ROWS}"))
        .withColumn("_h", F.lag("h").over(segment))
        .withColumn("_hseq", F.lag("hseq").over(segment))
        .join(F.broadcast(before), list(_LINK), "left")
        .join(F.broadcast(named), list(_LINK), "left")
        .join(F.broadcast(heads), ["store", "shard"], "left")
    )
    link = (
        F.when(F.col("hseq") == 1, F.lit(bytearray(FIRST_HEAD)))
        .when(F.col("_hseq") == F.col("hseq") - 1, F.col("_h"))
        .otherwise(F.col("before_anchor"))
    )
    made = F.unhex(F.sha2(F.concat(link, packed_history()), 256))
    wrong = rows.withColumn(
        "why",
        F.explode(
            F.array_compact(
                F.array(
                    # Without a hash before it nothing can be said; that rows lack is the other check's.
                    F.when(link.isNotNull() & (made != F.col("h")), F.lit("changed")),
                    F.when(F.col("anchor_h") != F.col("h"), F.lit("anchor")),
                    F.when(
                        (F.col("hseq") == F.col("head_hseq")) & (F.col("head_h") != F.col("h")), F.lit("head")
                    ),
                    F.when(
                        F.col("head_hseq").isNull() | (F.col("hseq") > F.col("head_hseq")),
                        F.lit("behind the head"),
                    ),
                )
            )
        ),
    )
    return findings(
        wrong,
        table="history",
        ref=F.concat_ws("/", "shard", "hseq"),
        at=F.col("at"),
        detail={"why": F.col("why"), "kind": F.col("kind"), "identity": F.col("identity")},
    )


def find_gaps(tables: Tables, limits: Limits) -> DataFrame:
    """Buckets of a chain that do not hold as many rows as their numbers ask for."""
    bucket = F.expr(f"(hseq - 1) DIV {ANCHOR_ROWS}").alias("bucket")
    found = (
        tables["history"]
        .groupBy("store", "shard", bucket)
        .agg(F.count("*").alias("rows"), F.count_distinct("hseq").alias("numbers"))
    )
    wanted = _starts(tables).withColumn(
        "bucket", F.explode(F.expr(f"sequence((first - 1) DIV {ANCHOR_ROWS}, (head - 1) DIV {ANCHOR_ROWS})"))
    )
    least = F.greatest(F.col("first"), F.col("bucket") * ANCHOR_ROWS + 1)
    most = F.least(F.col("head"), (F.col("bucket") + 1) * ANCHOR_ROWS)
    wrong = (
        wanted.join(found, ["store", "shard", "bucket"], "left")
        .withColumn("missing", most - least + 1 - F.coalesce("numbers", F.lit(0)))
        .withColumn("twice", F.coalesce("rows", F.lit(0)) - F.coalesce("numbers", F.lit(0)))
        .where("missing <> 0 OR twice <> 0")
    )
    return findings(
        wrong,
        table="history",
        ref=F.concat_ws("/", F.col("shard"), least),
        detail={"to": most, "missing": F.col("missing"), "twice": F.col("twice")},
    )


def _starts(tables: Tables) -> DataFrame:
    """Of every chain, the first number that must be there, and the last."""
    first = tables["history"].groupBy("store", "shard").agg(F.min("hseq").alias("found"))
    anchors = tables["anchor"].select(
        "store", "shard", (F.col("hseq") + 1).alias("found"), F.lit(True).alias("named")
    )
    heads = tables["shard"].where("hseq > 0").select("store", "shard", F.col("hseq").alias("head"))
    # Only a prune, which leaves an anchor below the first row, may take the beginning away.
    ends = heads.join(first, ["store", "shard"], "left").withColumn(
        "found", F.coalesce("found", F.col("head") + 1)
    )
    return (
        ends.join(F.broadcast(anchors), ["store", "shard", "found"], "left")
        .withColumn("first", F.when(F.col("named"), F.col("found")).otherwise(F.lit(1)))
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
