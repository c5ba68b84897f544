import enum
import math
from collections import OrderedDict, defaultdict
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given

from shardline.actors.errors import BusError, Code
from shardline.actors.plain import MAX_DEPTH, Plain, check_json, check_plain
from tests.kits.words import json_values, plain_values, refused


class Colour(enum.StrEnum):
    RED = "red"


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@given(value=plain_values())
def test_plain_values_pass(value: Plain) -> None:
    check_plain(value)


@given(value=json_values())
def test_json_values_pass(value: Plain) -> None:
    check_json(value)


@pytest.mark.parametrize(
    "value", [-(2**63), 2**64 - 1, -0.0, 5e-324, True, Colour.RED, OrderedDict({"a": 1}), b""]
)
def test_edges_that_can_be_stored(value: object) -> None:
    check_plain(value)
    check_plain(defaultdict(list, a=[value]))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"x": math.nan}, "$.x"),
        ({"x": [0, 1, 2, math.inf]}, "$.x[3]"),
        (-math.inf, "$"),
        ([2**64], "$[0]"),
        ({"a": {"b": -(2**63) - 1}}, "$.a.b"),
        ({"a b": {1, 2}}, '$["a b"]'),
        ({'q"\\': frozenset[int]()}, '$["q\\"\\\\"]'),
        ([[], [(1, 2)]], "$[1][0]"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "$.at"),
        ([Decimal(1)], "$[0]"),
        ([bytearray(b"x")], "$[0]"),
        ([1j], "$[0]"),
        ([object()], "$[0]"),
        ({"t": "a\ud83d"}, "$.t"),
    ],
)
def test_the_path_of_the_fault_is_named(value: object, path: str) -> None:
    """F48: NaN and its like are refused before anything is stored, with the path."""
    with pytest.raises(BusError) as caught:
        check_plain(value)

    assert caught.value.code is Code.INVALID_MESSAGE
    assert caught.value.message.startswith(path + ": ")
    assert caught.value.context == {"path": path}


@pytest.mark.parametrize("key", [1, None, b"a", ("a",), 1.5, True])
def test_keys_must_be_text(key: object) -> None:
    with refused(Code.INVALID_MESSAGE, "$.x: a key"):
        check_plain({"x": {key: 1}})


def test_keys_must_be_valid_unicode() -> None:
    with refused(Code.INVALID_MESSAGE, "lone surrogate"):
        check_plain({"\ud800": 1})


def test_the_start_of_the_path_is_the_callers() -> None:
    with refused(Code.INVALID_MESSAGE, "state.x[0]: "):
        check_plain({"x": [math.nan]}, where="state")


def test_long_keys_do_not_fill_the_log() -> None:
    with pytest.raises(BusError) as caught:
        check_plain({"k" * 100_000: math.nan})

    assert len(caught.value.message) < 200


def test_depth_is_limited() -> None:
    check_plain(nested(MAX_DEPTH))
    with refused(Code.INVALID_MESSAGE, "deeper than 64"):
        check_plain(nested(MAX_DEPTH + 1))
    with refused(Code.INVALID_MESSAGE, "deeper than 64"):
        check_plain({"a": nested(100_000)})


def test_values_that_hold_themselves_end() -> None:
    loop: list[object] = []
    loop.append(loop)
    with refused(Code.INVALID_MESSAGE, "deeper than 64"):
        check_plain(loop)

    many: list[object] = []
    for _ in range(40):
        many = [many, many]
    with refused(Code.TOO_LARGE):
        check_plain(many)


def test_json_takes_wide_integers_but_no_bytes() -> None:
    check_json({"id": 2**100})
    with refused(Code.INVALID_MESSAGE, "$.x[0]: bytes"):
        check_json({"x": [b"a"]})
    with refused(Code.INVALID_MESSAGE, "$.x"):
        check_json({"x": math.nan})
