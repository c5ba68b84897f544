"""Text from outside: what is valid Unicode, and what it becomes if it is not."""

import re

__all__ = ["clean_text", "has_lone_surrogate"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def has_lone_surrogate(text: str) -> bool:
    """Whether a text cannot be encoded as UTF-8."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def clean_text(text: str) -> str:
    """Replace each lone surrogate by U+FFFD; a text without one is returned as it is.

    A pair of surrogates that stands for one character, as some sources split it, is joined, not replaced.
    """
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
