"""Cuts a long text into parts that a channel takes: pure, and in the channel's own unit of length.

A part ends behind a newline, else behind a space, else between two grapheme clusters, as late as it may. Inside a
cluster (an emoji family, a letter with its accents) it ends only where the cluster alone is too long. The parts put
together are the text.
"""

from __future__ import annotations

from typing import Literal

from apsw.unicode import grapheme_next_break

Unit = Literal["codepoint", "utf16", "byte"]

_NO_BREAK_SPACES = "\u00a0\u2007\u202f"


def length_of(text: str, unit: Unit) -> int:
    """How long a channel that counts in `unit` finds a text."""
    match unit:
        case "codepoint":
            return len(text)
        case "utf16":
            return len(text.encode("utf-16-le", "surrogatepass")) // 2
        case "byte":
            return len(text.encode("utf-8", "surrogatepass"))


def split_text(text: str, limit: int, unit: Unit) -> list[str]:
    """Cut a text into parts.

    Args:
        text: Not empty.
        limit: The longest part, in `unit`s, >= 1. A single character that is longer is a part of its own.
        unit: What the channel counts.
    Returns:
        The parts in order; together they are `text`.
    """
    # No character is longer than four bytes: most texts are not counted at all.
    if len(text) * 4 <= limit or length_of(text, unit) <= limit:
        return [text]
    parts: list[str] = []
    start = 0
    while start < len(text):
        reach = _reach(text, start, limit, unit)
        end = reach if reach == len(text) else _best_end(text, start, reach)
        parts.append(text[start:end])
        start = end
    return parts


def _reach(text: str, start: int, limit: int, unit: Unit) -> int:
    """Where a part that begins at `start` has to end at the latest."""
    if unit == "codepoint":
        return min(len(text), start + limit)
    if length_of(text[start : start + limit], unit) <= limit:
        # Each character counts once, as in most texts.
        return min(len(text), start + limit)
    end, left = start, limit
    while end < len(text):
        left -= length_of(text[end], unit)
        if left < 0:
            break
        end += 1
    return max(end, start + 1)


def _best_end(text: str, start: int, reach: int) -> int:
    """The best end of a part: behind `start`, not behind `reach`."""
    ends = _cluster_ends(text, start, reach)
    # A part of white space alone is nothing that a channel would show: it ends behind this place.
    visible = start + _leading_space(text[start:reach])
    for is_good in (_ends_line, _ends_word):
        for end in reversed(ends):
            if end <= visible:
                break
            if is_good(text[end - 1]):
                return end
    return ends[-1] if ends else reach


def _cluster_ends(text: str, start: int, reach: int) -> list[int]:
    """Where clusters end between the two; empty where the first one is longer."""
    ends: list[int] = []
    end = grapheme_next_break(text, start)
    while end <= reach:
        ends.append(end)
        if end == len(text):
            break
        end = grapheme_next_break(text, end)
    return ends


def _leading_space(text: str) -> int:
    return len(text) - len(text.lstrip())


def _ends_line(character: str) -> bool:
    return character == "\n"


def _ends_word(character: str) -> bool:
    return character.isspace() and character not in _NO_BREAK_SPACES


__all__ = ["Unit", "length_of", "split_text"]
