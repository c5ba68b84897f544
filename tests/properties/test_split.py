"""Any text, any unit: the parts are the text, each fits, and no cluster is cut that fits."""

import time

from apsw.unicode import grapheme_next_break
from hypothesis import given
from hypothesis import strategies as st

from shardline.runtime.split import Unit, length_of, split_text

CLUSTERS = [
    *("a", "b", " ", "\n", "\r\n", "é", "e\u0301", "\u00a0", "\U0001f600", "\U0001f1e9\U0001f1ea"),
    *("\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0300", "\u200d", "각", "ก็", "\ud800"),
]
texts = st.one_of(st.text(min_size=1), st.lists(st.sampled_from(CLUSTERS), min_size=1).map("".join))
units = st.sampled_from(["codepoint", "utf16", "byte"])


def clusters(text: str) -> list[str]:
    found: list[str] = []
    start = 0
    while start < len(text):
        end = grapheme_next_break(text, start)
        found.append(text[start:end])
        start = end
    return found


@given(texts, st.integers(4, 40), units)
def test_the_parts_are_the_text_and_each_fits(text: str, limit: int, unit: Unit) -> None:
    parts = split_text(text, limit, unit)

    assert "".join(parts) == text
    assert all(0 < length_of(part, unit) <= limit for part in parts)


@given(texts, st.integers(4, 40), units)
def test_no_cluster_is_cut_that_fits(text: str, limit: int, unit: Unit) -> None:
    ends: set[int] = set()
    at = 0
    for part in split_text(text, limit, unit):
        at += len(part)
        ends.add(at)

    start = 0
    for cluster in clusters(text):
        if length_of(cluster, unit) <= limit:
            inside = set(range(start + 1, start + len(cluster)))
            assert not inside & ends
        start += len(cluster)


def test_a_part_ends_behind_a_newline_else_behind_a_space() -> None:
    assert split_text("one two\nthree four", 12, "codepoint") == ["one two\n", "three four"]
    assert split_text("one two three four", 12, "codepoint") == ["one two ", "three four"]
    assert split_text("onetwothreefour", 12, "codepoint") == ["onetwothreef", "our"]
    assert split_text("one\u00a0two three", 8, "codepoint") == ["one\u00a0two ", "three"]


def test_a_newline_in_front_is_no_part_of_its_own() -> None:
    assert split_text("\n\nabcdef", 4, "codepoint") == ["\n\nab", "cdef"]


def test_a_character_longer_than_the_limit_is_a_part_of_its_own() -> None:
    assert split_text("\U0001f600a", 3, "byte") == ["\U0001f600", "a"]


def _seconds_to_cut(text: str) -> float:
    """Of the processor: how many others it works for does not count."""
    begun_s = time.thread_time()
    assert "".join(split_text(text, 40_000, "byte")) == text
    return time.thread_time() - begun_s


def test_white_space_is_cut_as_quickly_as_letters() -> None:
    """A stranger who sends nothing but spaces must not stop the bot that repeats them: it took twenty times as long."""
    letters_s = _seconds_to_cut("a" * 2**18)

    assert _seconds_to_cut("x" + " " * 2**18) < 5 * letters_s + 0.1
    assert _seconds_to_cut("x" + "\n" * 2**18) < 5 * letters_s + 0.1


def test_clusters_at_the_limit_and_one_above() -> None:
    """A family of 8 units: 512 of them are 4096, one letter more is a part of its own, in front it moves a family."""
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert length_of(family, "utf16") == 8

    assert split_text(family * 512, 4096, "utf16") == [family * 512]
    assert split_text(family * 512 + "a", 4096, "utf16") == [family * 512, "a"]
    assert split_text("a" + family * 512, 4096, "utf16") == ["a" + family * 511, family]
    assert split_text(family * 512 + "\u0301", 4096, "utf16") == [family * 511, family + "\u0301"]
