"""msgpack of a history row in Spark's own expressions, for the hash of the chain.

Spark makes one method of such an expression as long as it is short enough for Java to compile (`session.py`). So what
depends on a size is looked up in a short list, not chosen case by case.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

_ARRAY_OF_ELEVEN: Final = "9B"
_NIL: Final = "C0"
_DIGITS: Final = 16
_FORMS: Final = (
    # From zero on, by the number of hex digits: what stands before them.
    *(("0", 1), ("", 1), ("CD0", 1), ("CD", 1), ("CE000", 1), ("CE00", 1), ("CE0", 1), ("CE", 1)),
    *(("CF" + "0" * (_DIGITS - digits), 1) for digits in range(9, _DIGITS + 1)),
    # Below zero there are sixteen: the first one that counts.
    *(("D0", 15), ("D0", 15), ("D1", 13), ("D1", 13), *[("D2", 9)] * 4, *[("D3", 1)] * 8),
    # 128 to 255, whose two digits would else be another type; -32 to -1.
    *(("CC", 1), ("", 15)),
)
_LONG_BYTE: Final = 33
_SMALL_NEGATIVE: Final = 34
_SHORT_TEXT: Final = 32
_TEXT_HEADS: Final = ("D9", "D9", "DA0", "DA", "DB000", "DB00", "DB0", "DB")
"""First byte of a longer text by the hex digits of its length; no text has one digit only."""


def packed_history() -> Column:
    """The bytes of `[shard, hseq, kind, identity, from, to, event, claim, at, code, instance]`."""
    code = fn.col("code")
    parts = [
        _bytes(fn.lit(_ARRAY_OF_ELEVEN), packed_int(fn.col("shard")), packed_int(fn.col("hseq"))),
        packed_text(fn.col("kind")),
        _bytes(packed_int(fn.col("identity"))),
        *(packed_text(fn.col(name)) for name in ("from", "to", "event")),
        _bytes(packed_int(fn.col("claim")), packed_int(fn.col("at"))),
        fn.coalesce(packed_text(code), _bytes(fn.lit(_NIL))),
        _bytes(packed_int(fn.col("instance"))),
    ]
    return fn.concat(*parts)


def packed_int(value: Column) -> Column:
    """A 64-bit integer in its shortest form, in hex."""
    digits = fn.hex(value)
    # One bit more than what is below zero has without its sign: the number of its digits tells whether they fit.
    below = fn.length(fn.hex(fn.shiftleft(fn.bitwise_not(value), 1)))
    form = (
        fn.when(value.between(0x80, 0xFF), fn.lit(_LONG_BYTE))
        .when(value >= 0, fn.length(digits))
        .when(value >= -0x20, fn.lit(_SMALL_NEGATIVE))
        .otherwise(below + _DIGITS)
    )
    heads = fn.array(*(fn.lit(head) for head, _ in _FORMS))
    starts = fn.array(*(fn.lit(start) for _, start in _FORMS))
    return fn.concat(
        fn.element_at(heads, form), fn.substring(digits, fn.element_at(starts, form), fn.lit(_DIGITS))
    )


def packed_text(value: Column) -> Column:
    """The bytes of a text in its shortest form; null stays null."""
    length = fn.octet_length(value)
    digits = fn.hex(length)
    head = fn.when(length < _SHORT_TEXT, fn.hex(length + 0xA0)).otherwise(
        fn.concat(fn.element_at(fn.array(*map(fn.lit, _TEXT_HEADS)), fn.length(digits)), digits)
    )
    return fn.concat(fn.unhex(head), value.cast("binary"))


def _bytes(*digits: Column) -> Column:
    return fn.unhex(fn.concat(*digits))
