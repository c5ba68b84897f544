"""The exported tables as Spark types; no JVM is needed to make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType

from .tables import Kind, Table

_TYPES: Final[Mapping[Kind, type[DataType]]] = {"int": LongType, "text": StringType, "blob": BinaryType}

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


def spark_schema(table: Table) -> StructType:
    """The columns of a table as read back: its own, then those that its folders name."""
    return StructType(
        [
            *(StructField(column.name, _TYPES[column.kind]()) for column in table.columns),
            *(StructField(name, StringType()) for name in ("store", *table.partitions)),
        ]
    )
