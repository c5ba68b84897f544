"""Reads what a JSON object should hold; None where it holds something else, for the platform adds and changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ...actors.plain import Plain

Object = Mapping[str, Plain]
"""A JSON object."""


def text_in(source: Object, name: str) -> str | None:
    """A text that is not empty."""
    value = source.get(name)
    return value if isinstance(value, str) and value else None


def integer_in(source: Object, name: str) -> int | None:
    """An integer; true and false are none."""
    value = source.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def object_in(source: Object, name: str) -> Object | None:
    """An object."""
    return as_object(source.get(name))


def list_in(source: Object, name: str) -> list[Plain]:
    """A list; an empty one where there is none."""
    value = source.get(name)
    return value if isinstance(value, list) else []


def as_object(value: object) -> Object | None:
    """The value itself, if it is an object."""
    return cast("Object", value) if isinstance(value, dict) else None


__all__ = ["Object", "as_object", "integer_in", "list_in", "object_in", "text_in"]
