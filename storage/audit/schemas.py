"""The exported tables as Spark types; no JVM is needed to make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final, cast

from pyspark.sql.types import BinaryType, DataType, DoubleType, LongType, StringType, StructField, StructType

from .arrow import ArrowSchema
from .tables import Kind, Table

_TYPES: Final[Mapping[Kind, type[DataType]]] = {"int": LongType, "text": StringType, "blob": BinaryType}

# Its answer has a type of Arrow's, which brings none.
to_arrow: Final = cast(
    "Callable[[StructType], ArrowSchema]", import_module("pyspark.sql.pandas.types").to_arrow_schema
)

FINDING: Final = StructType(
    [
        StructField("store", StringType()),
        StructField("channel", StringType()),
        StructField("conversation_key", StringType()),
        StructField("ref_table", StringType()),
        StructField("ref_id", StringType()),
        StructField("at", LongType()),
        StructField("detail", StringType()),
    ]
)
"""What every check finds: the place, the time in microseconds where one is known, and a JSON object."""

OUTCOME: Final = StructType(
    [
        StructField("run_id", StringType()),
        StructField("check", StringType()),
        StructField("severity", StringType()),
        StructField("status", StringType()),
        StructField("rows_scanned", LongType()),
        StructField("findings", LongType()),
        StructField("seconds", DoubleType()),
        StructField("error", StringType()),
    ]
)
"""What became of each check."""


def spark_schema(table: Table) -> StructType:
    """The columns of a table as read back: its own, then those that its folders name."""
    return StructType(
        [
            *(StructField(column.name, _TYPES[column.kind]()) for column in table.columns),
            *(StructField(name, StringType()) for name in ("store", *table.partitions)),
        ]
    )
