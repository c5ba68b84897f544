"""Plain values: what payloads, state and step results are made of, and the one walk that checks them."""

import math
import re
from typing import TypeAlias, cast

from .errors import BusError, Code

__all__ = ["MAX_DEPTH", "Plain", "check_json", "check_plain", "is_flat", "path_step"]

Plain: TypeAlias = "bool | int | float | str | bytes | list[Plain] | dict[str, Plain] | None"
"""A value that survives storage unchanged. No tuples: they would come back as lists."""

MAX_DEPTH = 64
"""Lists and maps inside each other; `[[1]]` has depth 2."""

# A value of the largest payload has at most one node a byte; also ends lists that hold themselves twice.
_MAX_NODES = 1_048_576
_INT_MIN = -(2**63)
_INT_MAX = 2**64 - 1
_MAX_KEY_CHARS = 80
_TEXT = frozenset({str})
_FLAT = frozenset({str, int, bool, type(None)})
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,79}")


def check_plain(value: object, *, where: str = "$") -> None:
    """Check that a value can be stored and read back equal.

    Args:
        value: Anything; accepted are `Plain` values with finite floats, integers within -2⁶³ … 2⁶⁴-1, text keys and
            text without lone surrogates, at most 64 deep.
        where: The path of `value`, for the error.
    Raises:
        BusError: INVALID_MESSAGE with the path of the first fault, such as `$.x[3]` (also in context `path`);
            TOO_LARGE, more than 1,048,576 values.
    """
    _raise_fault(_Walk(json_only=False).fault(value, 0), where)


def is_flat(value: object) -> bool:
    """Whether a value is a map from text to texts, integers, bools and None, as most states are.

    Then msgpack itself refuses the rest of what `check_plain` does: lone surrogates and integers out of range.
    """
    if type(value) is not dict:
        return False
    known = cast("dict[object, object]", value)
    return _FLAT.issuperset(map(type, known.values())) and _TEXT.issuperset(map(type, known))


def check_json(value: object, *, where: str = "$") -> None:
    """Check that a value can be written as JSON: as `check_plain`, but no bytes, and integers of any size.

    Raises:
        BusError: INVALID_MESSAGE with the path, or TOO_LARGE.
    """
    _raise_fault(_Walk(json_only=True).fault(value, 0), where)


def _raise_fault(fault: tuple[str, str] | None, where: str) -> None:
    if fault is not None:
        path, reason = fault
        raise BusError(Code.INVALID_MESSAGE, f"{where}{path}: {reason}", path=where + path)


class _Walk:
    """One walk; `fault` returns None or (path below the value, reason)."""

    __slots__ = ("_json_only", "_nodes")

    def __init__(self, *, json_only: bool) -> None:
        self._json_only = json_only
        self._nodes = 0

    def fault(self, value: object, depth: int) -> tuple[str, str] | None:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise BusError(Code.TOO_LARGE, "more than 1,048,576 values", limit=_MAX_NODES)
        match value:
            case None | bool():
                return None
            case str():
                return _text_fault(value)
            case int():
                return self._int_fault(value)
            case float():
                return None if math.isfinite(value) else ("", f"{value} is not a finite number")
            case list() | dict() if depth >= MAX_DEPTH:
                return "", f"deeper than {MAX_DEPTH} levels"
            case list():
                return self._list_fault(value, depth)  # pyright: ignore[reportUnknownArgumentType]
            case dict():
                return self._map_fault(value, depth)  # pyright: ignore[reportUnknownArgumentType]
            case bytes():
                return ("", "bytes have no JSON form") if self._json_only else None
            case tuple():
                return "", "a tuple would come back as a list; use a list"
            case _:
                return "", f"{type(value).__name__} cannot be stored"

    def _int_fault(self, value: int) -> tuple[str, str] | None:
        if self._json_only or _INT_MIN <= value <= _INT_MAX:
            return None
        return "", "the integer is outside -2**63 … 2**64-1"

    def _list_fault(self, values: list[object], depth: int) -> tuple[str, str] | None:
        for index, item in enumerate(values):
            found = self.fault(item, depth + 1)
            if found is not None:
                return f"[{index}]{found[0]}", found[1]
        return None

    def _map_fault(self, values: dict[object, object], depth: int) -> tuple[str, str] | None:
        for key, item in values.items():
            if not isinstance(key, str):
                return "", f"a key of type {type(key).__name__} is not text"
            found = _text_fault(key)
            if found is not None:
                return "", f"the key {key[:_MAX_KEY_CHARS]!r} holds a lone surrogate"
            found = self.fault(item, depth + 1)
            if found is not None:
                return f"{path_step(key)}{found[0]}", found[1]
        return None


def _text_fault(value: str) -> tuple[str, str] | None:
    if value.isascii():
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return "", "the text holds a lone surrogate"
    return None


def path_step(key: str) -> str:
    """How an error's path names the value under a key: `.key`, or `["key"]` where that would not be plain."""
    if _BARE_KEY.fullmatch(key) is not None:
        return f".{key}"
    # Long keys would make long log lines.
    escaped = key[:_MAX_KEY_CHARS].replace("\\", "\\\\").replace('"', '\\"')
    return f'["{escaped}"]'
