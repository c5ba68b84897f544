from base64 import urlsafe_b64encode

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.actors.envelope import (
    MessageEnvelope,
    base64url_from_bytes,
    bytes_from_base64url,
    payload_from_base64,
    payload_to_base64,
)
from shardline.actors.errors import Code
from tests.kits.words import SESSION, make_envelope, refusal_of, refused

GOOD = '{"message_id":"11","text":"hi","sent_at":"2026-02-16T11:12:00Z"}'


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


@given(
    text=st.text(),
    session=st.sampled_from([None, SESSION]),
    reply_to=st.sampled_from([None, "10"]),
)
def test_round_trip(text: str, session: str | None, reply_to: str | None) -> None:
    envelope = MessageEnvelope(
        message_id="é/11", text=text, sent_at="2026-02-16T11:12:00Z", session_id=session, reply_to=reply_to
    )
    wire = payload_to_base64(envelope)

    assert payload_from_base64(wire) == envelope
    assert set(wire) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_the_wire_form_is_fixed() -> None:
    envelope = MessageEnvelope(message_id="11", text="hi", sent_at="2026-02-16T11:12:00Z")

    assert payload_to_base64(envelope) == encoded(GOOD)
    assert payload_from_base64(encoded(GOOD)) == envelope


def test_values_are_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        make_envelope().text = "other"  # type: ignore[misc]  # that it is refused is the test


def test_a_lone_surrogate_is_not_sent_and_is_replaced_when_received() -> None:
    with refused(Code.INVALID_MESSAGE, "$.text"):
        payload_to_base64(attrs.evolve(make_envelope(), text="\ud83d"))
    assert payload_from_base64(encoded(GOOD.replace("hi", "\\ud83d"))).text == "\ufffd"


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace('"text":"hi"', '"Text":"hi"'),
        GOOD.replace('"text":"hi"', '"text":null'),
        GOOD.replace('"text":"hi"', '"text":5'),
        GOOD.replace('"text":"hi",', ""),
        GOOD.replace('"message_id":"11",', ""),
        GOOD.replace('"message_id":"11"', '"message_id":""'),
        GOOD.replace('"message_id":"11"', '"message_id":11'),
        GOOD.replace('"message_id":"11"', '"message_id":" 11"'),
        GOOD.replace(',"sent_at":"2026-02-16T11:12:00Z"', ""),
        GOOD.replace("}", ',"reply_to":null}'),
        GOOD.replace("}", ',"session_id":7}'),
        GOOD.replace("}", ',"extra":1}'),
        GOOD.replace("}", ',"text":"again"}'),
        GOOD + " {}",
        f"[{GOOD}]",
        '"text"',
        "",
    ],
)
def test_payloads_that_are_not_strict(text: str) -> None:
    with refused(Code.INVALID_MESSAGE):
        payload_from_base64(encoded(text))


@pytest.mark.parametrize(
    "bad", ["YQ==", "YQ=", "YWI\n", "Y W I", "YWI+", "YWI/", "YWJj\r\nYWJj", "Y", "YR", "YWJ", "é"]
)
def test_base64_has_one_form(bad: str) -> None:
    with refused(Code.INVALID_MESSAGE, "unpadded base64url"):
        bytes_from_base64url(bad, "payload_base64")


@given(data=st.binary(max_size=50))
def test_base64_round_trip(data: bytes) -> None:
    assert bytes_from_base64url(base64url_from_bytes(data), "x") == data


@given(text=st.text("AQgw-_=\n+/", max_size=12))
def test_only_the_written_form_is_read(text: str) -> None:
    refusal = refusal_of(lambda: bytes_from_base64url(text, "x"))

    assert refusal in (None, Code.INVALID_MESSAGE)
    if refusal is None:
        assert base64url_from_bytes(bytes_from_base64url(text, "x")) == text


def test_base64_is_limited_before_it_is_decoded() -> None:
    assert len(bytes_from_base64url("A" * 136, "x", limit_bytes=102)) == 102
    with refused(Code.TOO_LARGE):
        bytes_from_base64url("A" * 200, "x", limit_bytes=102)
