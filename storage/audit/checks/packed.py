"""msgpack of a history row in Spark's own expressions, for the hash of the chain."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

_INTS_BEFORE: Final = ("shard", "hseq")
_ARRAY_OF_ELEVEN: Final = "9B"
_NIL: Final = "C0"
_FORMS: Final = (
    (0, 0x7F, "", 2),
    (0, 0xFF, "CC", 2),
    (0, 0xFFFF, "CD", 4),
    (0, 0xFFFFFFFF, "CE", 8),
    (0, 2**63 - 1, "CF", 16),
    (-0x20, -1, "", 2),
    (-0x80, -1, "D0", 2),
    (-0x8000, -1, "D1", 4),
    (-0x80000000, -1, "D2", 8),
    (-(2**63), -1, "D3", 16),
)
"""least, largest, first byte, digits."""


def packed_history() -> Column:
    """The bytes of `[shard, hseq, kind, identity, from, to, event, claim, at, code, instance]`."""
    parts = [
        fn.lit(_ARRAY_OF_ELEVEN),
        *(packed_int(fn.col(name)) for name in _INTS_BEFORE),
        packed_text(fn.col("kind")),
        packed_int(fn.col("identity")),
        *(packed_text(fn.col(name)) for name in ("from", "to", "event")),
        packed_int(fn.col("claim")),
        packed_int(fn.col("at")),
        fn.coalesce(packed_text(fn.col("code")), fn.lit(_NIL)),
        packed_int(fn.col("instance")),
    ]
    return fn.unhex(fn.concat(*parts))


def packed_int(value: Column) -> Column:
    """A 64-bit integer in its shortest form, in hex."""
    # One choice of the head and one of the length: a choice of whole values makes code that Spark does not compile.
    head = _first(
        [(value.between(fn.lit(least), fn.lit(most)), fn.lit(head)) for least, most, head, _ in _FORMS]
    )
    length = _first(
        [(value.between(fn.lit(least), fn.lit(most)), fn.lit(long)) for least, most, _, long in _FORMS]
    )
    return fn.concat(head, fn.right(fn.lpad(fn.hex(value), 16, "0"), length))


def packed_text(value: Column) -> Column:
    """A text in its shortest form, in hex; null stays null."""
    length = fn.octet_length(value).cast("bigint")
    digits = fn.lpad(fn.hex(length), 16, "0")
    head = _first(
        [
            (length < 32, fn.right(fn.hex(length + 0xA0), fn.lit(2))),
            (length < 0x100, fn.concat(fn.lit("D9"), fn.right(digits, fn.lit(2)))),
            (length < 0x10000, fn.concat(fn.lit("DA"), fn.right(digits, fn.lit(4)))),
            (length >= 0x10000, fn.concat(fn.lit("DB"), fn.right(digits, fn.lit(8)))),
        ]
    )
    return fn.concat(head, fn.hex(fn.encode(value, "UTF-8")))


def _first(cases: list[tuple[Column, Column]]) -> Column:
    condition, value = cases[0]
    return reduce(lambda column, case: column.when(*case), cases[1:], fn.when(condition, value))
