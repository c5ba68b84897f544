"""Field entries 47 to 49: whatever the bytes, a decoder gives a value or one typed error, and nothing else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from functools import partial
from typing import cast

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardline import BusError
from shardline.actors.codec import (
    CODEC_VERSION,
    pack_event,
    pack_message,
    unpack_event,
    unpack_message,
    unpack_plain,
)
from shardline.actors.errors import Code, Permanence
from shardline.actors.event import Event
from shardline.actors.plain import Plain
from shardline.actors.storable import check_storable
from shardline.actors.wire import message_from_wire, message_to_wire
from shardline.adapters.base import NotSent, Sent, Uncertain
from shardline.adapters.transcript.position import position_from_fact
from shardline.adapters.transcript.reader import BadLine, ChatLine, conversation_of, parse_line
from shardline.runtime.control.verbs import read_verb
from shardline.runtime.defaults import MAX_PAUSE_S
from shardline.runtime.send_answer import checked_answer
from tests.kits.bad_input import LONE
from tests.kits.words import json_values, make_message, spoiled

WIRE = cast("dict[str, Plain]", json.loads(message_to_wire(attrs.evolve(make_message(), raw=None))))
WORDS = ("publish", "requeue", "purge", "resolve", "cancel", "drop", "")
STORED = pack_message(make_message())
EVENT = pack_event(Event(id="1", ts_us=1, topic="log", payload={"x": [1, 2.5, "y"]}))

any_text = st.text(st.characters(), max_size=60)
"""Also with lone surrogates."""


def given_or_refused(call: Callable[[], object]) -> None:
    with contextlib.suppress(BusError):
        call()


@given(st.binary(max_size=80) | any_text)
def test_any_document_is_a_message_or_a_typed_error(data: bytes | str) -> None:
    given_or_refused(lambda: message_from_wire(data))


@given(st.sampled_from(sorted(WIRE)), json_values())
@example("hops", 10**400)
@example("created_at", "9999-12-31T23:59:59-23:59")
@example("extensions", {"edited_at": 5})
@example("extensions", {"entities": [{"kind": "url", "offset_utf16": -(10**30), "length_utf16": 1}]})
def test_a_message_with_any_field_is_read_or_refused(name: str, value: Plain) -> None:
    given_or_refused(lambda: message_from_wire(json.dumps({**WIRE, name: value})))


@given(st.sampled_from(WORDS) | any_text, any_text | json_values().map(json.dumps))
@example("purge", '{"older_than_us": 1' + "0" * 30 + "}")
@example("purge", '{"older_than_us": -1}')
@example("requeue", '{"rows": ["in-' + "9" * 19 + '"]}')
def test_any_control_record_is_a_verb_or_a_typed_error(word: str, args: str) -> None:
    given_or_refused(lambda: read_verb(word, args))


@given(
    st.sampled_from(["rows", "row", "decision", "reason", "older_than_us", "message"]),
    json_values(),
    st.sampled_from(WORDS),
)
def test_a_verb_with_any_argument_is_read_or_refused(name: str, value: Plain, word: str) -> None:
    given_or_refused(lambda: read_verb(word, json.dumps({name: value})))


@given(st.integers(0, len(STORED) - 1), st.integers(0, 255), st.booleans())
def test_a_damaged_record_is_read_or_refused(place: int, byte: int, cut: bool) -> None:
    for stored, unpack in ((STORED, unpack_message), (EVENT, unpack_event)):
        place %= len(stored)
        damaged = stored[:place] + bytes([byte]) + (b"" if cut else stored[place + 1 :])
        given_or_refused(partial(unpack, damaged, CODEC_VERSION))
        given_or_refused(partial(unpack_plain, damaged, limit_bytes=1_000))


@given(st.binary(max_size=80))
def test_any_bytes_unpack_or_are_refused(data: bytes) -> None:
    for unpack in (unpack_message, unpack_event):
        given_or_refused(partial(unpack, data, CODEC_VERSION))
    given_or_refused(lambda: unpack_plain(data, limit_bytes=1_000))


@given(st.binary(max_size=120) | json_values().map(lambda value: json.dumps(value).encode()))
def test_any_line_is_a_message_or_bad(data: bytes) -> None:
    assert isinstance(parse_line(1, data), ChatLine | BadLine)
    conversation_of(data)


@given(any_text | json_values().map(json.dumps))
def test_any_stored_position_is_one_or_none(fact: str) -> None:
    position_from_fact(fact)


mistyped: st.SearchStrategy[object] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    any_text,
    st.binary(max_size=3),
    st.just([]),
    st.just({}),
)


@given(st.sampled_from([field.name for field in attrs.fields(type(make_message()))]), mistyped)
@example("idempotency_key", LONE)
def test_a_message_that_may_be_stored_can_be_read_back(name: str, value: object) -> None:
    message = spoiled(make_message(), **{name: value})
    try:
        check_storable(message)
    except BusError:
        return
    assert unpack_message(pack_message(message), CODEC_VERSION, raw=message.raw) == message


@pytest.mark.parametrize("kind", ["sent", "not sent", "uncertain", "other"])
@given(mistyped, mistyped, mistyped)
def test_any_answer_of_a_channel_can_be_stored(
    kind: str, first: object, second: object, third: object
) -> None:
    answer: object = {
        "sent": Sent(cast("str", first), cast("bool", second)),
        "not sent": NotSent(
            Code.RATE_LIMITED if first is None else cast("Code", first),
            Code.RATE_LIMITED.permanence if second is None else cast("Permanence", second),
            retry_after_s=cast("float", third),
            text=cast("str", first),
        ),
        "uncertain": Uncertain(cast("str", first)),
        "other": first,
    }[kind]
    checked = checked_answer(answer)

    if isinstance(checked, Sent):
        assert (checked.platform_message_id or "").encode() is not None
    elif isinstance(checked, Uncertain):
        assert checked.reason.encode() is not None
    else:
        assert 0 <= (checked.retry_after_s or 0) <= MAX_PAUSE_S
