"""Typed reading of decoded maps: each field is there with its type, or the error names it."""

from collections.abc import Mapping, Set

from .errors import BusError, Code
from .plain import Plain

__all__ = [
    "check_keys",
    "optional_count",
    "optional_list",
    "optional_map",
    "optional_text",
    "required_count",
    "required_text",
]


def check_keys(record: Mapping[str, Plain], known: Set[str], what: str) -> None:
    """Refuse keys that are not known, and values that are null.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    for key, value in record.items():
        if key not in known:
            raise BusError(Code.INVALID_MESSAGE, f"{what} has the unknown key {key[:80]!r}", field=key)
        if value is None:
            raise BusError(Code.INVALID_MESSAGE, f"{what}.{key} is null; leave it out", field=key)


def optional_text(record: Mapping[str, Plain], name: str) -> str | None:
    """Read a text, None if it is not there.

    Raises:
        BusError: INVALID_MESSAGE, another type.
    """
    value = record.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _wrong(name, "text", value)


def required_text(record: Mapping[str, Plain], name: str) -> str:
    """Read a text.

    Raises:
        BusError: INVALID_MESSAGE, missing or another type.
    """
    value = record.get(name)
    if isinstance(value, str):
        return value
    raise _wrong(name, "text", value)


def optional_count(record: Mapping[str, Plain], name: str) -> int | None:
    """Read an integer, None if it is not there.

    Raises:
        BusError: INVALID_MESSAGE, another type.
    """
    value = record.get(name)
    if value is None or type(value) is int:
        return value
    raise _wrong(name, "an integer", value)


def required_count(record: Mapping[str, Plain], name: str) -> int:
    """Read an integer.

    Raises:
        BusError: INVALID_MESSAGE, missing or another type.
    """
    value = record.get(name)
    if type(value) is int:
        return value
    raise _wrong(name, "an integer", value)


def optional_list(record: Mapping[str, Plain], name: str) -> list[Plain]:
    """Read a list, empty if it is not there.

    Raises:
        BusError: INVALID_MESSAGE, another type.
    """
    value = record.get(name)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise _wrong(name, "a list", value)


def optional_map(record: Mapping[str, Plain], name: str) -> dict[str, Plain]:
    """Read a map, empty if it is not there.

    Raises:
        BusError: INVALID_MESSAGE, another type.
    """
    value = record.get(name)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise _wrong(name, "a map", value)


def _wrong(name: str, wanted: str, value: Plain) -> BusError:
    if value is None:
        return BusError(Code.INVALID_MESSAGE, f"{name} is missing", field=name)
    return BusError(Code.INVALID_MESSAGE, f"{name} must be {wanted}, not {type(value).__name__}", field=name)
