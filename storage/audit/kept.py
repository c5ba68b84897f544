"""Heads of chains that were kept elsewhere, against the chains of an export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import attrs
from pyspark.sql import functions as fn
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from ..sqlite.verify import Head
from .exported import Exported, make_frame
from .manifest import BadExport

_KEPT: Final = StructType(
    [
        StructField("shard", LongType()),
        StructField("kept_hseq", LongType()),
        StructField("kept_h", BinaryType()),
    ]
)


@attrs.frozen(kw_only=True)
class LostHead:
    """A kept head that is not in its chain."""

    store: str
    shard: int
    hseq: int
    text: str


def compare_heads(exported: Exported, store: str, kept: Mapping[int, Head]) -> list[LostHead]:
    """Look kept heads up.

    A row below the oldest one exported cannot be compared; that rows lack in between is another check's.

    Args:
        exported: The chains.
        store: Whose heads they are.
        kept: By shard.
    Raises:
        BadExport: there is no export of this store.
    """
    if store not in exported.uuids:
        raise BadExport(f"there is no export of store {store}, whose heads were kept")
    rows = [(shard, head.hseq, head.h) for shard, head in kept.items() if head.hseq]
    heads = make_frame(exported.spark, rows, _KEPT)
    here = fn.col("store") == store
    history = exported.table("history").where(here).select("shard", fn.col("hseq").alias("kept_hseq"), "h")
    ends = exported.table("shard").where(here).select("shard", fn.col("hseq").alias("end"))
    wrong = (
        heads.join(ends, "shard", "left")
        .join(history, ["shard", "kept_hseq"], "left")
        .where("coalesce(end, 0) < kept_hseq OR h <> kept_h")
        .select("shard", "kept_hseq", "end")
        .orderBy("shard")
    )
    found = cast("list[tuple[int, int, int | None]]", [tuple(row) for row in wrong.collect()])
    return [
        LostHead(
            store=store,
            shard=shard,
            hseq=hseq,
            text=f"the chain ends at row {end or 0}, before the kept head"
            if (end or 0) < hseq
            else "is not the row that the kept head names",
        )
        for shard, hseq, end in found
    ]
