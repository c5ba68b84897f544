"""Watches live stores: each batch of new history goes through the checks that need nothing but what is new.

    OUT/checkpoint                        Spark's own: how far each store was read
    OUT/heads/<batch>.json                where each chain ended after a batch
    OUT/finding/batch=<batch>/*.parquet   one row a finding

A batch that was cut off runs again as the same batch: it begins from the heads of the one before and writes its
findings over, so nothing is lost and nothing is there twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, cast

import apsw
import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from ..sqlite.look import Look
from .checks.base import DEFAULT_LIMITS, Severity, findings
from .checks.chain import find_chain_breaks
from .checks.history import find_bad_transitions
from .checks.messages import find_two_owners
from .exported import make_frame
from .manifest import BadExport
from .schemas import FINDING
from .source import FORMAT, StoreSource
from .stores import name_stores

_KEPT_BATCHES: Final = 3
_MOST_TOLD: Final = 100
_HEAD: Final = StructType(
    [
        StructField("store", StringType()),
        StructField("shard", LongType()),
        StructField("hseq", LongType()),
        StructField("h", BinaryType()),
        StructField("instance", LongType()),
        StructField("at", LongType()),
    ]
)
_LINK: Final = ("store", "shard", "hseq")

Head = tuple[str, int, int, bytes, int, int]
"""store, shard, hseq, h, the newest instance, at."""


@attrs.frozen(kw_only=True)
class Told:
    """What one batch says.

    Attributes:
        rows: New rows of history.
        findings: All of them.
        first: The first 100: check, store, row, detail.
    """

    batch: int
    rows: int
    findings: int
    first: Sequence[tuple[str, str, str, str]]


def start_watch(
    spark: SparkSession,
    stores: Sequence[Path],
    out: Path,
    tell: Callable[[Told], None],
    *,
    every_s: float | None,
) -> StreamingQuery:
    """Begin to watch, or go on where an earlier watch into the same folder was.

    Args:
        spark: The session.
        stores: The files; their owners may be writing.
        out: The folder of results.
        tell: Told of each batch when it is written; again, if the batch runs again.
        every_s: Seconds between batches; None, what is there now, then it ends.
    Returns:
        Spark's query: `awaitTermination`, `stop`.
    Raises:
        BadExport: two are of one store.
        BusError: as `Look`.
    """
    spark.dataSource.register(StoreSource)
    paths = [path.absolute() for path in name_stores(stores).values()]
    rows = spark.readStream.format(FORMAT).option("table", "history").load("\n".join(map(str, paths)))
    writer = rows.writeStream.option("checkpointLocation", str(out / "checkpoint"))
    timed = (
        writer.trigger(availableNow=True)
        if every_s is None
        else writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds")
    )
    return timed.foreachBatch(_Watch(spark, paths, out, tell).take).start()


def problem_of(query: StreamingQuery) -> str | None:
    """Why a query ended, in one line; None where it was asked to."""
    failed = query.exception()
    if failed is None:
        return None
    lines = [line for line in str(failed).splitlines() if f"{BadExport.__name__}: " in line]
    return lines[0].partition(f"{BadExport.__name__}: ")[2] if lines else str(failed).splitlines()[0]


class _Watch:
    def __init__(
        self, spark: SparkSession, paths: Sequence[Path], out: Path, tell: Callable[[Told], None]
    ) -> None:
        self._spark = spark
        self._paths = paths
        self._out = out
        self._tell = tell

    def take(self, batch: DataFrame, number: int) -> None:
        """Check one batch."""
        batch = batch.persist()
        try:
            before = self._read_heads(number - 1)
            rows = batch.count()
            found = self._find(batch, before)
            path = str(self._out / "finding" / f"batch={number}")
            found.write.mode("overwrite").parquet(path)
            written = self._spark.read.schema(found.schema).parquet(path)
            first = written.select("check", "store", "ref_id", "detail").limit(_MOST_TOLD).collect()
            told = Told(
                batch=number,
                rows=rows,
                findings=written.count(),
                first=cast("list[tuple[str, str, str, str]]", [tuple(row) for row in first]),
            )
            self._write_heads(number, before, batch)
        finally:
            batch.unpersist()
        self._tell(told)

    def _find(self, batch: DataFrame, before: Sequence[Head]) -> DataFrame:
        known = make_frame(self._spark, before, _HEAD)
        anchors = known.select(*_LINK, "at", "h").unionByName(
            make_frame(self._spark, self._read_anchors(), _HEAD).select(*_LINK, "at", "h")
        )
        ends = batch.groupBy("store", "shard").agg(
            fn.max("hseq").alias("hseq"), fn.max_by("h", "hseq").alias("h")
        )
        tables = {"history": batch, "anchor": anchors.dropDuplicates(list(_LINK)), "shard": ends}
        owned = {
            "history": batch.unionByName(
                known.select(*_LINK, "h", "instance", "at"), allowMissingColumns=True
            )
        }
        parts = {
            "hash_chain": find_chain_breaks(tables, DEFAULT_LIMITS),
            "state_violations": find_bad_transitions(tables, DEFAULT_LIMITS),
            "double_ownership": find_two_owners(owned, DEFAULT_LIMITS),
            "sequence_gaps": _find_lost(batch, known),
        }
        named = [
            frame.select(
                fn.lit(name).alias("check"), fn.lit(str(Severity.ERROR)).alias("severity"), *FINDING.names
            )
            for name, frame in parts.items()
        ]
        found = named[0]
        for frame in named[1:]:
            found = found.unionByName(frame)
        return found.coalesce(1)

    def _read_anchors(self) -> list[Head]:
        anchors: list[Head] = []
        for path in self._paths:
            with Look(path) as look:
                uuid = look.meta.uuid
                anchors += [(uuid, shard, hseq, h, 0, at) for shard, hseq, h, at in look.read(_ask_anchors)]
        return anchors

    def _read_heads(self, number: int) -> list[Head]:
        if number < 0:
            return []
        found = cast("list[list[str | int]]", json.loads(self._place(number).read_text()))
        return [
            (str(store), int(shard), int(hseq), bytes.fromhex(str(h)), int(instance), int(at))
            for store, shard, hseq, h, instance, at in found
        ]

    def _write_heads(self, number: int, before: Sequence[Head], batch: DataFrame) -> None:
        ends = batch.groupBy("store", "shard").agg(
            fn.max("hseq"), fn.max_by("h", "hseq"), fn.max("instance"), fn.max("at")
        )
        heads = {one[:2]: one for one in before}
        # One row a chain: as many as there are shards.
        for row in ends.collect():
            store, shard, hseq, h, instance, at = cast("tuple[str, int, int, bytes, int, int]", tuple(row))
            known = heads.get((store, shard))
            newest = instance if known is None else max(instance, known[4])
            heads[store, shard] = (store, shard, hseq, bytes(h), newest, at)
        place = self._place(number)
        place.parent.mkdir(parents=True, exist_ok=True)
        beside = place.with_suffix(".new")
        beside.write_text(json.dumps([[*one[:3], one[3].hex(), *one[4:]] for one in heads.values()]))
        beside.replace(place)
        self._place(number - _KEPT_BATCHES).unlink(missing_ok=True)

    def _place(self, number: int) -> Path:
        return self._out / "heads" / f"{number}.json"


def _find_lost(batch: DataFrame, known: DataFrame) -> DataFrame:
    """Chains of which rows lack between where they ended and where they end now."""
    first = known.select("store", "shard", fn.col("hseq").alias("known"))
    lost = (
        batch.groupBy("store", "shard")
        .agg(
            fn.count_distinct("hseq").alias("numbers"),
            fn.min("hseq").alias("least"),
            fn.max("hseq").alias("most"),
            fn.max("at").alias("at"),
        )
        .join(fn.broadcast(first), ["store", "shard"], "left")
        # Of a chain that is new to this watch the beginning may be below a prune.
        .withColumn("missing", fn.expr("most - coalesce(known, least - 1) - numbers"))
        .where("missing <> 0")
    )
    return findings(
        lost,
        table="history",
        ref=fn.concat_ws("/", "shard", fn.expr("coalesce(known, least - 1) + 1")),
        at=fn.col("at"),
        detail={"to": fn.col("most"), "missing": fn.col("missing")},
    )


def _ask_anchors(database: apsw.Connection) -> list[tuple[int, int, bytes, int]]:
    return cast(
        "list[tuple[int, int, bytes, int]]",
        database.execute("SELECT shard, hseq, h, at FROM anchor").fetchall(),
    )
