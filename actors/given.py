"""What a program hands over, of whatever type it is: whether it is a number, and how a refusal shows it.

Annotations hold in programs that a type checker has seen, and nowhere else. Nothing here raises, whatever it is given.
"""

import math
from typing import TypeGuard

__all__ = ["is_number", "is_whole", "shown"]

_MAX_SHOWN_CHARS = 80


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a finite number that a float can hold, and no bool."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False  # an integer beyond every float


def is_whole(value: object, *, lowest: int = 0, highest: int = 2**63 - 1) -> TypeGuard[int]:
    """Whether a value is an integer of this range, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest


def shown(value: object) -> str:
    """Show a refused value in an error, escaped and not longer than 80 characters."""
    if isinstance(value, str):
        # The rest of a long text would be escaped to be cut off.
        value = value[:_MAX_SHOWN_CHARS]
    try:
        text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    if len(text) > _MAX_SHOWN_CHARS:
        text = text[: _MAX_SHOWN_CHARS - 1] + "…"
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
