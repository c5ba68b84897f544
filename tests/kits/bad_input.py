"""What comes in that should not: bytes that are no message, and Python values that cannot be stored."""

from __future__ import annotations

import math
from typing import Final

import attrs

from shardline.actors.errors import Code

LONE: Final = "\ud83d"
"""Half of an emoji, as JSON's `\\ud83d` alone decodes to."""

BIG_IDS: Final = ("1497549923779084389", "9223372036854775808")
"""A snowflake of 19 digits, and one more than 64 bits with a sign hold."""


def deep(levels: int) -> object:
    """A list in a list, so many times."""
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@attrs.frozen
class BadBytes:
    """A whole document that no door takes, and how it is refused."""

    data: bytes
    words: str
    code: Code = Code.INVALID_MESSAGE


BYTES: Final = {
    "empty": BadBytes(b"", "not JSON"),
    "white space": BadBytes(b" \n", "not JSON"),
    "not UTF-8": BadBytes(b"\xff\xfe{}", "not UTF-8 at byte 0"),
    "not UTF-8 inside": BadBytes(b'{"id": "\xc3"}', "not UTF-8 at byte 8"),
    "UTF-8 of a surrogate": BadBytes(b'{"id": "\xed\xa0\xbd"}', "not UTF-8"),
    "byte order mark": BadBytes(b"\xef\xbb\xbf{}", "not JSON"),
    "UTF-16": BadBytes('{"id": "1"}'.encode("utf-16"), "not UTF-8"),
    "NUL": BadBytes(b"\0", "not JSON"),
    "NUL behind": BadBytes(b"{}\0", "not JSON"),
    "NUL in a text": BadBytes(b'{"id": "\0"}', "not JSON"),
    "NaN": BadBytes(b'{"id": NaN}', "NaN is no JSON number"),
    "Infinity": BadBytes(b'{"id": -Infinity}', "-Infinity is no JSON number"),
    "overflow": BadBytes(b'{"id": 1e999}', "1e999 is too large"),
    "5,000 digits": BadBytes(b'{"id": ' + b"7" * 5_000 + b"}", "not JSON"),
    "depth 1,000": BadBytes(b"[" * 1_000 + b"]" * 1_000, "nests deeper than 64"),
    "objects 1,000 deep": BadBytes(b'{"id":' * 1_000 + b"1" + b"}" * 1_000, "nests deeper than 64"),
    "20 KB of [": BadBytes(b"[" * 20_480, "nests deeper than 64"),
    "a key twice": BadBytes(b'{"id": "1", "id": "2"}', "comes twice"),
    "keys that become one": BadBytes(b'{"\\ud83d": "1", "\\ud83e": "2"}', "comes twice"),
    "trailing data": BadBytes(b"{} {}", "not JSON"),
    "cut off": BadBytes(b'{"id": "1', "not JSON"),
    "too long": BadBytes(b'{"id": "' + b"x" * 2_200_000 + b'"}', "JSON of 2200010 bytes", Code.TOO_LARGE),
}
"""By name."""

VALUES: Final[dict[str, tuple[object, str]]] = {
    "NaN": (math.nan, "$.x"),
    "Infinity": (math.inf, "$.x"),
    "overflow": (1e308 * 10, "$.x"),
    "lone surrogate": (f"a{LONE}", "$.x"),
    "lone surrogate inside": ([{"y": LONE}], "$.x[0].y"),
    "lone surrogate as a key": ({LONE: 1}, "$.x"),
    "a key that is no text": ({5: 1}, "$.x"),
    "integer of 65 bits": (2**64, "$.x"),
    "integer below 64 bits": (-(2**63) - 1, "$.x"),
    "depth 1,000": (deep(1_000), "$.x[0][0]"),
    "a set": ({1}, "$.x"),
    "a tuple": ((1,), "$.x"),
    "an object": (object(), "$.x"),
}
"""By name: what stands under the key `x` of a map, and the beginning of the path that the refusal names."""
