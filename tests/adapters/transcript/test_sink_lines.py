import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.adapters.transcript.sink_lines import (
    SinkLine,
    is_torn,
    key_of,
    order_violations,
    parse_sink_line,
    render_line,
)

lines = st.builds(
    SinkLine,
    conversation=st.text(),
    idempotency_key=st.text(),
    text=st.text(st.characters(), max_size=50),
    claim=st.integers(0, 2**63 - 1),
)


def said(conversation: str, text: str) -> SinkLine:
    return SinkLine(conversation=conversation, idempotency_key="k", text=text, claim=1)


@given(lines)
def test_a_line_survives_its_written_form(line: SinkLine) -> None:
    data = render_line(line)

    assert parse_sink_line(data) == line
    assert key_of(data) == line.idempotency_key
    assert data.count(b"\n") == 1
    assert json.loads(data) == {
        "conversation": line.conversation,
        "idempotency_key": line.idempotency_key,
        "text": line.text,
        "claim": line.claim,
    }


@given(lines, st.data())
def test_every_beginning_of_a_line_is_torn(line: SinkLine, data: st.DataObject) -> None:
    whole = render_line(line)
    cut = data.draw(st.integers(1, len(whole) - 1))

    assert is_torn(whole[:cut])
    assert is_torn(whole[:cut] + b"\0" * 7)
    assert key_of(whole[:cut]) is None


@pytest.mark.parametrize(
    "data",
    [
        b"hello",
        b"hello\n",
        b"{",
        b'{"conversation": 0, "seq": 0, "sender": "user1", "at": "09:14", "text": "t"}',
        b'{"conversation": "0", "seq": 0',
        b'{"conversation": "0", "idempotency_key": "k", "text": "t", "claim": 1, "more": 1}',
        b'{"conversation": "0", "idempotency_key": "k", "text": "t", "claim": 1}x',
        b'{"conversation": "\xc3\xbc',
        b"SQLite format 3\0",
    ],
)
def test_what_is_not_ours_is_not_torn(data: bytes) -> None:
    assert is_torn(data) is (data == b"{")
    assert parse_sink_line(data + b"\n") is None


def test_zeros_are_what_a_power_cut_leaves() -> None:
    assert is_torn(b"\0" * 4096)


@pytest.mark.parametrize(
    ("texts", "violations"),
    [
        ([], []),
        (["1: a", "2: b", "3: c"], []),
        (["1: a", "3: c", "2: b", "4: d"], [2]),
        (["3: c", "1: a", "2: b"], [1, 2]),
        (["1: a", "1: a"], []),
        (["1: a", "hello", "2: b", ""], []),
        (["2: a", "hello", "1: b"], [2]),
        (["9: a", "10: b"], []),
    ],
)
def test_a_turn_below_an_earlier_one_is_a_violation(texts: list[str], violations: list[int]) -> None:
    assert list(order_violations(said("a", text) for text in texts)) == violations


def test_order_is_of_each_conversation_alone() -> None:
    lines = [said("a", "5: x"), said("b", "1: x"), said("a", "6: x"), said("b", "2: x")]

    assert list(order_violations(lines)) == []
