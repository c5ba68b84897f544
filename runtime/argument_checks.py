"""What a program may hand to the runtime's verbs: checked at the call, before anything is looked up or stored."""

from __future__ import annotations

import math
from typing import Final

from ..actors.errors import BusError, Code
from ..actors.given import is_number, is_whole, shown
from ..actors.text import has_lone_surrogate

_MAX: Final = 2**63 - 1


def check_kind(value: object, kinds: type | tuple[type, ...], what: str, wanted: str) -> None:
    """Refuse a value that is not of this kind.

    Args:
        value: As it came.
        kinds: What it may be.
        what: The argument's name.
        wanted: What it may be, for people.
    Raises:
        BusError: INVALID_MESSAGE.
    """
    if not isinstance(value, kinds):
        raise BusError(Code.INVALID_MESSAGE, f"{what} must be {wanted}, not {shown(value)}", field=what)


def check_callable(value: object, what: str, wanted: str) -> None:
    """Refuse what cannot be called.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    if not callable(value):
        raise BusError(Code.INVALID_MESSAGE, f"{what} must be {wanted}, not {shown(value)}", field=what)


def check_whole(value: object, what: str, *, lowest: int = 0, highest: int = _MAX) -> None:
    """Refuse what is no integer of this range.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    if not is_whole(value, lowest=lowest, highest=highest):
        wanted = f">= {lowest}" if highest == _MAX else f"from {lowest} to {highest}"
        raise BusError(
            Code.INVALID_MESSAGE, f"{what} must be an integer {wanted}, not {shown(value)}", field=what
        )


def check_length(value: object, what: str, *, may_be_zero: bool = False) -> None:
    """Refuse what is no finite number of seconds above 0.

    Args:
        value: As it came.
        what: The argument's name.
        may_be_zero: 0 is one too.
    Raises:
        BusError: INVALID_MESSAGE.
    """
    if not is_number(value) or not (value > 0 or (may_be_zero and value == 0)):
        wanted = ">= 0" if may_be_zero else "greater than 0"
        raise BusError(
            Code.INVALID_MESSAGE,
            f"{what} must be a finite number of seconds {wanted}, not {shown(value)}",
            field=what,
        )


def check_timeout(value: object) -> None:
    """Refuse what is neither None nor a number of seconds; 0 and less do not wait, infinity waits for ever.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    if value is None or is_number(value):
        return
    if not isinstance(value, float) or math.isnan(value):
        raise BusError(
            Code.INVALID_MESSAGE,
            f"timeout_s must be a number of seconds or None, not {shown(value)}",
            field="timeout_s",
        )


def check_page(offset: object, limit: object) -> None:
    """Refuse what is no part of a list.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    check_whole(offset, "offset")
    check_whole(limit, "limit")


def check_row_id(row_id: object) -> None:
    """Refuse what can be no row's id.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    check_whole(row_id, "row_id", lowest=-_MAX)


def check_filters(**given: object) -> None:
    """Refuse what no text in a store can be equal to: each is a text, or None for any.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    for what, value in given.items():
        if value is not None:
            check_words(value, what)


def check_words(value: object, what: str) -> None:
    """Refuse what is no text that a store can hold.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    check_kind(value, str, what, "text")
    if isinstance(value, str) and has_lone_surrogate(value):
        raise BusError(Code.INVALID_MESSAGE, f"{what} holds a lone surrogate", field=what)


def check_one_of(value: object, words: tuple[str, ...], what: str) -> None:
    """Refuse what is none of these words.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    if not isinstance(value, str) or value not in words:
        raise BusError(
            Code.INVALID_MESSAGE, f"{what} is {' or '.join(words)}, not {shown(value)}", field=what
        )


__all__ = [
    "check_callable",
    "check_filters",
    "check_kind",
    "check_length",
    "check_one_of",
    "check_page",
    "check_row_id",
    "check_timeout",
    "check_whole",
    "check_words",
]
