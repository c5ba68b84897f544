"""Spark's own msgpack is msgpack's, and code that the JVM compiles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgpack
import pytest

pytest.importorskip("pyspark", reason="the extra `audit` is not installed")
pytest.importorskip("benchmarks", reason="the generator of stores is no part of the wheel")

from pyspark.sql import functions as fn
from pyspark.sql.types import LongType, StringType, StructField, StructType

from benchmarks.audited_store import make_store
from shardline.storage.audit.checks.base import DEFAULT_LIMITS
from shardline.storage.audit.checks.chain import find_chain_breaks
from shardline.storage.audit.checks.packed import packed_int, packed_text
from shardline.storage.audit.export import export_store
from shardline.storage.audit.exported import Exported, make_frame
from shardline.storage.audit.tables import TABLES
from tests.kits.spark_compiled import compiling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HUGE_METHOD_BYTES = 8_000
"""The JVM never compiles a method of more."""
INTS = sorted(
    {0, -(2**63), 2**63 - 1}
    | {sign * 2**bits + more for bits in range(63) for sign in (-1, 1) for more in (-1, 0, 1)}
)
TEXTS = ["x" * length for length in (0, 1, 15, 16, 31, 32, 255, 256, 4095, 4096, 65535, 65536, 2**20)]


def test_integers_are_packed_as_msgpack_packs_them(spark: SparkSession) -> None:
    rows = make_frame(spark, [(one,) for one in INTS], StructType([StructField("v", LongType())]))
    found = rows.select("v", fn.unhex(packed_int(fn.col("v")))).collect()

    assert {row[0]: bytes(row[1]) for row in found} == {one: msgpack.packb(one) for one in INTS}


def test_texts_are_packed_as_msgpack_packs_them(spark: SparkSession) -> None:
    texts = [*TEXTS, *(f"é{text}👋" for text in TEXTS)]
    rows = make_frame(spark, [(one,) for one in [*texts, None]], StructType([StructField("v", StringType())]))
    found = rows.select("v", packed_text(fn.col("v"))).collect()

    wanted: dict[str | None, bytes | None] = {one: msgpack.packb(one) for one in texts}
    assert {row[0]: row[1] and bytes(row[1]) for row in found} == wanted | {None: None}


def test_the_code_of_the_chains_is_small_enough_to_be_compiled(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_store(tmp_path / "a.db", 100)
    export_store(tmp_path / "a.db", tmp_path / "x")
    exported = Exported(spark, tmp_path / "x")
    tables = {name: exported.table(name) for name in TABLES} | {"stores": exported.stores}
    with compiling(spark):
        find_chain_breaks(tables, DEFAULT_LIMITS).explain("codegen")
    sizes = list(map(int, re.findall(r"maxMethodCodeSize:(\d+)", capsys.readouterr().out)))

    assert len(sizes) > 2
    assert max(sizes) < HUGE_METHOD_BYTES
