"""Strict JSON both ways: limits before parsing, no NaN, no duplicate keys, one typed error for every failure."""

import json
import math
import re
from typing import NoReturn

from .errors import BusError, Code
from .plain import MAX_DEPTH, Plain, check_json, is_flat
from .text import clean_text, has_lone_surrogate

__all__ = ["MAX_JSON_BYTES", "dumps", "loads", "write"]

MAX_JSON_BYTES = 1_048_576
"""Default size limit, 1 MiB of UTF-8."""

# An unfinished string counts up to the end, else `"\"\"\"…` would be scanned again from each quote.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def loads(data: bytes | str, *, limit_bytes: int = MAX_JSON_BYTES, max_depth: int = MAX_DEPTH) -> Plain:
    """Parse one JSON value.

    Args:
        data: UTF-8 without byte order mark, or text. White space may surround the value, nothing else.
        limit_bytes: Refused unparsed above this.
        max_depth: Refused unparsed if lists and maps nest deeper.
    Returns:
        The value; integers exact, lone surrogates replaced by U+FFFD.
    Raises:
        BusError: TOO_LARGE; INVALID_MESSAGE for all else, with `offset` (characters; bytes for invalid UTF-8) in
            the context where it is known.
    """
    text = _decoded(data, limit_bytes)
    _check_depth(text, max_depth)
    try:
        value = _parse(text)
    except json.JSONDecodeError as error:
        raise BusError(
            Code.INVALID_MESSAGE, f"not JSON: {error.msg} at offset {error.pos}", offset=error.pos
        ) from error
    except (ValueError, RecursionError) as error:
        # An integer past Python's digit limit, or a caller that is itself near the recursion limit.
        raise BusError(Code.INVALID_MESSAGE, f"not JSON: {error}") from error
    if _SURROGATE_ESCAPE.search(text) is not None:
        return _cleaned(value)
    return value


def dumps(value: object, *, sort_keys: bool = False) -> str:
    """Write a value as compact JSON, non-ASCII text as it is.

    Args:
        value: A `Plain` value without bytes; integers may have any size.
        sort_keys: Sort map keys by code point, for hashing.
    Raises:
        BusError: INVALID_MESSAGE with the path: NaN, Infinity, bytes, lone surrogates, keys that are not text, more
            than 64 deep.
    """
    if is_flat(value):
        # Most calls of a platform: all that can be wrong with one is seen in what was written.
        written = write(value, sort_keys=sort_keys)
        if not has_lone_surrogate(written):
            return written
    check_json(value)
    return write(value, sort_keys=sort_keys)


def write(value: object, *, sort_keys: bool = False) -> str:
    """`dumps` of a value that was checked, or came out of `loads`."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)


def _decoded(data: bytes | str, limit_bytes: int) -> str:
    if isinstance(data, str):
        text = clean_text(data)
        size_bytes = len(text) if text.isascii() or len(text) > limit_bytes else len(text.encode())
    else:
        size_bytes = len(data)
        text = ""
    if size_bytes > limit_bytes:
        raise BusError(
            Code.TOO_LARGE, f"JSON of {size_bytes} bytes, at most {limit_bytes}", limit_bytes=limit_bytes
        )
    if isinstance(data, str):
        return text
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BusError(
            Code.INVALID_MESSAGE, f"not UTF-8 at byte {error.start}: {error.reason}", offset=error.start
        ) from error


def _check_depth(text: str, max_depth: int) -> None:
    if text.count("[") + text.count("{") <= max_depth:
        return
    depth = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        first = text[found.start()]
        if first in "[{":
            depth += 1
            if depth > max_depth:
                raise BusError(
                    Code.INVALID_MESSAGE,
                    f"JSON nests deeper than {max_depth} levels at offset {found.start()}",
                    offset=found.start(),
                )
        elif first != '"':
            depth -= 1


def _parse(text: str) -> Plain:
    # The hooks see every object, number and constant, so what comes back is Plain.
    value: Plain = json.loads(
        text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_refuse_constant
    )
    return value


def _unique(pairs: list[tuple[str, Plain]]) -> dict[str, Plain]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise BusError(
                    Code.INVALID_MESSAGE, f"not JSON: the key {clean_text(key[:80])!r} comes twice"
                )
            seen.add(key)
    return found


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise BusError(Code.INVALID_MESSAGE, f"not JSON: the number {digits[:40]} is too large")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise BusError(Code.INVALID_MESSAGE, f"not JSON: {name} is no JSON number")


def _cleaned(value: Plain) -> Plain:
    match value:
        case str():
            return clean_text(value)
        case list():
            return [_cleaned(item) for item in value]
        case dict():
            # Two keys may become the same only now.
            return _unique([(clean_text(key), _cleaned(item)) for key, item in value.items()])
        case _:
            return value
