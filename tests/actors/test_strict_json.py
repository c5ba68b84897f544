import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.actors.errors import BusError, Code
from shardline.actors.plain import Plain
from shardline.actors.strict_json import MAX_JSON_BYTES, dumps, loads
from tests.kits.words import json_values, refusal_of, refused


def same(one: object, other: object) -> bool:
    """Equal, and of the same types: 1, 1.0 and True differ."""
    return repr(one) == repr(other)


@given(value=json_values())
def test_round_trip(value: Plain) -> None:
    text = dumps(value)

    assert same(loads(text), value)
    assert same(loads(text.encode()), value)


@given(text=st.text(st.characters()) | st.text('[]{}",:0 \\u', max_size=30))
def test_any_text_is_a_value_or_one_typed_error(text: str) -> None:
    refusal = refusal_of(lambda: loads(text))

    assert refusal in (None, Code.INVALID_MESSAGE)
    if refusal is None:
        assert same(loads(dumps(loads(text))), loads(text))


@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_one_typed_error(data: bytes) -> None:
    assert refusal_of(lambda: loads(data)) in (None, Code.INVALID_MESSAGE)


def test_a_lone_surrogate_spoils_neither_its_text_nor_its_neighbours() -> None:
    """F47: a page of three updates, the middle text is the escape \\ud83d alone."""
    page = '[{"text": "one"}, {"text": "\\ud83d"}, {"text": "three"}]'

    assert loads(page) == [{"text": "one"}, {"text": "\ufffd"}, {"text": "three"}]
    assert loads(page.encode()) == loads(page)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud83d\ude00"', "😀"),
        (r'"\uDE00\uD83D"', "\ufffd\ufffd"),
        (r'"a\ud83db"', "a\ufffdb"),
        (r'"\\ud83d"', "\\ud83d"),
        ('"\ud83d"', "\ufffd"),
        (r'{"\ud800": ["\udfff"]}', {"\ufffd": ["\ufffd"]}),
        (r'"\ud7ff\ue000"', "\ud7ff\ue000"),
    ],
)
def test_surrogates(text: str, value: Plain) -> None:
    assert loads(text) == value


@pytest.mark.parametrize("text", [r'{"\ud800": 1, "\udbff": 2}', r'{"\ud800": 1, "�": 2}'])
def test_keys_that_become_the_same_are_duplicates(text: str) -> None:
    with refused(Code.INVALID_MESSAGE, "twice"):
        loads(text)


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 400 + ".0"])
def test_numbers_that_are_not_finite(token: str) -> None:
    """F48: the tokens that Python reads by itself, and overflow."""
    for text in (token, f'{{"x": {token}}}', f"[{token}]"):
        with refused(Code.INVALID_MESSAGE):
            loads(text)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_is_not_written(value: float) -> None:
    with refused(Code.INVALID_MESSAGE, "$.x[1]"):
        dumps({"x": [0, value]})


@pytest.mark.parametrize("value", [b"a", {1, 2}, (1, 2), {1: 2}, "\ud800", {"\ud800": 1}, object()])
def test_values_without_json_form_are_not_written(value: object) -> None:
    with refused(Code.INVALID_MESSAGE, "$"):
        dumps(value)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000 + "]" * 1_000,
        "[" * 20_480,
        '{"a":' * 65 + "1" + "}" * 65,
        "[" * 65 + "]" * 65,
        '"' + "[" * 65 + '"[',
    ],
)
def test_deep_nesting_is_refused_and_the_next_message_works(text: str) -> None:
    """F49: no RecursionError, one typed code."""
    with refused(Code.INVALID_MESSAGE):
        loads(text)
    assert loads('{"next": 1}') == {"next": 1}


def test_depth_counts_nesting_not_brackets() -> None:
    assert loads("[" * 64 + "]" * 64) is not None
    assert loads("[" + ",".join(["[]"] * 1_000) + "]") == [[]] * 1_000
    assert loads('["' + "[{" * 100 + '\\"[' + '"]') == ["[{" * 100 + '"[']
    with refused(Code.INVALID_MESSAGE, "deeper than 2 levels at offset 2"):
        loads("[[[]]]", max_depth=2)


@pytest.mark.parametrize("text", ['"' + '\\"' * 500_000, '"\\', "[]," * 300_000, '"' + "[" * 1_000_000])
def test_hostile_input_is_scanned_in_linear_time(text: str) -> None:
    started_s = time.perf_counter()
    with refused(Code.INVALID_MESSAGE):
        loads(text)

    # Quadratic scans of these take minutes.
    assert time.perf_counter() - started_s < 20


@pytest.mark.parametrize(
    "digits", ["1497549923779084389", "9223372036854775808", "18446744073709551616", "1" + "0" * 60]
)
def test_wide_integers_stay_exact(digits: str) -> None:
    """F50: ids that are numbers on a platform lose no digit before they become text."""
    assert str(loads(digits)) == digits
    assert loads(f'{{"id": {digits}}}') == {"id": int(digits)}
    assert dumps({"id": int(digits)}) == f'{{"id":{digits}}}'


def test_integers_past_pythons_own_limit_are_one_typed_error() -> None:
    with refused(Code.INVALID_MESSAGE):
        loads("1" * 5_000)


@pytest.mark.parametrize(
    "text", ['{"b": 0, "a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "a": 3}}]', '{"a": 1, "\\u0061": 2}']
)
def test_duplicate_keys(text: str) -> None:
    with refused(Code.INVALID_MESSAGE, "'a' comes twice"):
        loads(text)


@pytest.mark.parametrize(
    ("text", "offset"),
    [('{"a": 1} x', 9), ("1 2", 2), ("{} {}", 3), ('{"a": }', 6), ("", 0), ("[1,]", 3), ("'a'", 0)],
)
def test_the_offset_of_the_fault_is_named(text: str, offset: int) -> None:
    with pytest.raises(BusError) as caught:
        loads(text)

    assert caught.value.code is Code.INVALID_MESSAGE
    assert caught.value.context == {"offset": offset}


def test_white_space_around_is_json_white_space() -> None:
    assert loads(" \t\r\n{} \n") == {}
    for text in ("{}\u00a0", "\ufeff{}", "{}\x00"):
        with refused(Code.INVALID_MESSAGE):
            loads(text)


@pytest.mark.parametrize(
    ("data", "offset"), [(b'"\xff"', 1), (b'{"a": "\xed\xa0\xbd"}', 7), (b"\xff\xfe[\x00", 0)]
)
def test_bytes_must_be_utf8(data: bytes, offset: int) -> None:
    with pytest.raises(BusError) as caught:
        loads(data)

    assert caught.value.code is Code.INVALID_MESSAGE
    assert caught.value.context == {"offset": offset}


def test_size_is_checked_in_bytes_before_parsing() -> None:
    fits = json.dumps("a" * (MAX_JSON_BYTES - 2))
    assert len(fits) == MAX_JSON_BYTES
    assert loads(fits) == loads(fits.encode())

    for data in (
        fits + " ",
        fits.encode() + b" ",
        "é" * (MAX_JSON_BYTES // 2 + 1),
        "[" * (MAX_JSON_BYTES + 1),
    ):
        with refused(Code.TOO_LARGE):
            loads(data)
    with refused(Code.TOO_LARGE):
        loads("12345", limit_bytes=4)


def test_written_form_is_compact_and_can_be_sorted() -> None:
    assert dumps({"b": [1, 2.5, None, True], "a": "é😀\n"}) == '{"b":[1,2.5,null,true],"a":"é😀\\n"}'
    assert dumps({"b": 1, "a": {"d": 1, "c": 2}}, sort_keys=True) == '{"a":{"c":2,"d":1},"b":1}'
