import json

import attrs
import pytest
from hypothesis import given

from shardline.actors.errors import BusError, Code
from shardline.actors.extensions import EMPTY, Attachment, Entity, Extensions, Kind
from shardline.actors.message import BusMessage
from shardline.actors.strict_json import dumps, loads
from shardline.actors.wire import message_from_wire, message_to_wire
from tests.kits.words import MESSAGE_ID, SESSION, make_message, messages, refused, with_text

MESSAGE = attrs.evolve(make_message(), raw=None)
UUID4 = "0194f5c0-8f6e-4d9d-a4d7-6d8d4f35f456"


def changed(**changes: object) -> str:
    """The wire form with some keys replaced; `...` removes one."""
    record = json.loads(message_to_wire(MESSAGE)) | changes
    return json.dumps({name: value for name, value in record.items() if value is not ...})


@given(message=messages())
def test_round_trip(message: BusMessage) -> None:
    wire = message_to_wire(message)

    assert message_from_wire(wire) == message
    assert message_from_wire(wire.encode()) == message


def test_the_wire_form_is_fixed() -> None:
    full = attrs.evolve(
        MESSAGE,
        causation_id=MESSAGE_ID,
        hops=2,
        extensions=Extensions(
            platform_message_id="7:11:edit:9",
            kind=Kind.EDIT,
            edited_at_us=1_771_240_320_500_000,
            mention_users=("7",),
            attachments=(Attachment(kind="photo", ref="f1", size_bytes=900),),
            entities=(Entity(kind="url", offset_utf16=0, length_utf16=2, url="https://example.org"),),
        ),
    )

    assert json.loads(message_to_wire(full)) == {
        "id": MESSAGE_ID,
        "direction": "inbound",
        "channel": "telegram",
        "topic": "chat.message",
        "conversation_key": "tg:7000000001",
        "participant_key": "tg:7000000001",
        "idempotency_key": "telegram:7000000001:11",
        "correlation_id": MESSAGE_ID,
        "causation_id": MESSAGE_ID,
        "payload_base64": "eyJtZXNzYWdlX2lkIjoiMTEiLCJ0ZXh0IjoiaGkiLCJzZW50X2F0IjoiMjAyNi0wMi0xNlQxMToxMjow"
        "MFoiLCJzZXNzaW9uX2lkIjoiMDE5NGY1YzAtOGY2ZS03ZDlkLWE0ZDctNmQ4ZDRmMzVmNDU2In0",
        "created_at": "2025-10-09T08:53:20Z",
        "hops": 2,
        "extensions": {
            "platform_message_id": "7:11:edit:9",
            "kind": "edit",
            "edited_at": "2026-02-16T11:12:00.500000Z",
            "mention_users": ["7"],
            "attachments": [{"kind": "photo", "ref": "f1", "size_bytes": 900}],
            "entities": [{"kind": "url", "offset_utf16": 0, "length_utf16": 2, "url": "https://example.org"}],
        },
    }
    assert message_from_wire(message_to_wire(full)) == full


def test_raw_stays_at_home() -> None:
    assert message_from_wire(message_to_wire(make_message())) == MESSAGE


def test_nothing_empty_is_written() -> None:
    bare = attrs.evolve(MESSAGE, channel=None, participant_key=None, extensions=Extensions())

    assert set(json.loads(message_to_wire(bare))) == {
        "id",
        "direction",
        "topic",
        "conversation_key",
        "idempotency_key",
        "correlation_id",
        "payload_base64",
        "created_at",
    }


def test_a_message_may_start_its_own_correlation() -> None:
    assert message_from_wire(changed(correlation_id=...)).correlation_id == MESSAGE_ID


def test_empty_extensions_cost_no_object() -> None:
    assert message_from_wire(changed(extensions={})).extensions is EMPTY


@pytest.mark.parametrize("name", ["channel", "participant_key", "extensions"])
def test_optional_keys_may_be_missing(name: str) -> None:
    message_from_wire(changed(**{name: ...}))


@pytest.mark.parametrize(
    "name", ["id", "direction", "topic", "conversation_key", "payload_base64", "created_at"]
)
def test_required_keys(name: str) -> None:
    with refused(Code.INVALID_MESSAGE, f"{name} is missing"):
        message_from_wire(changed(**{name: ...}))


@pytest.mark.parametrize("value", [..., ""])
def test_missing_idempotency_key_has_its_own_code(value: object) -> None:
    with refused(Code.IDEMPOTENCY_KEY_REQUIRED):
        message_from_wire(changed(idempotency_key=value))


@pytest.mark.parametrize("name", sorted(json.loads(message_to_wire(MESSAGE))))
def test_null_and_other_types_are_refused(name: str) -> None:
    for value in (None, 1.5, [1], True):
        with pytest.raises(BusError) as caught:
            message_from_wire(changed(**{name: value}))
        assert caught.value.code is Code.INVALID_MESSAGE


@pytest.mark.parametrize("name", ["Id", "ID", "id ", "raw", "payload", "created_at_us", "unknown"])
def test_names_are_exact(name: str) -> None:
    with refused(Code.INVALID_MESSAGE, "unknown key"):
        message_from_wire(changed(**{name: "x"}))


def test_duplicate_keys_and_trailing_data() -> None:
    wire = message_to_wire(MESSAGE)
    for bad in (
        wire[:-1] + ',"topic":"chat.message"}',
        wire + "{}",
        wire + "x",
        f"[{wire}]",
        '"x"',
        "",
        "{}",
    ):
        with refused(Code.INVALID_MESSAGE):
            message_from_wire(bad)
    assert message_from_wire(wire + "\n") == MESSAGE


@pytest.mark.parametrize("name", ["id", "correlation_id", "causation_id"])
def test_uuids_have_one_form(name: str) -> None:
    for good in (SESSION, "11", "bus_" + UUID4):
        assert getattr(message_from_wire(changed(**{name: good})), name) == good
    for bad in (SESSION.upper(), SESSION.replace("-", ""), "{" + SESSION + "}", UUID4):
        with refused(Code.INVALID_MESSAGE, name):
            message_from_wire(changed(**{name: bad}))


@pytest.mark.parametrize("tail", ["=", "\n", " ", "+", "A"])
def test_base64_is_strict(tail: str) -> None:
    record = json.loads(message_to_wire(MESSAGE))

    with refused(Code.INVALID_MESSAGE):
        message_from_wire(changed(payload_base64=record["payload_base64"] + tail))


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("direction", "INBOUND", Code.INVALID_MESSAGE),
        ("topic", "Chat", Code.INVALID_TOPIC),
        ("topic", "system.x", Code.INVALID_TOPIC),
        ("conversation_key", "tg:@ada", Code.INVALID_MESSAGE),
        ("idempotency_key", " a", Code.INVALID_MESSAGE),
        ("channel", "", Code.INVALID_MESSAGE),
        ("created_at", "2026-02-16", Code.INVALID_MESSAGE),
        ("created_at", "1969-12-31T23:59:59Z", Code.INVALID_MESSAGE),
        ("hops", -1, Code.INVALID_MESSAGE),
        ("hops", 1.0, Code.INVALID_MESSAGE),
        ("extensions", {"kind": "hologram"}, Code.INVALID_MESSAGE),
        ("extensions", {"From_user_id": "7"}, Code.INVALID_MESSAGE),
        ("extensions", {"from_user_id": 7}, Code.INVALID_MESSAGE),
        ("extensions", {"from_user_id": None}, Code.INVALID_MESSAGE),
        ("extensions", {"edited_at_us": 5}, Code.INVALID_MESSAGE),
        ("extensions", {"edited_at": 5}, Code.INVALID_MESSAGE),
        ("extensions", {"edited_at": "now"}, Code.INVALID_MESSAGE),
        ("extensions", {"attachments": [{"kind": "photo", "ref": "f", "x": 1}]}, Code.INVALID_MESSAGE),
        ("extensions", {"attachments": [{"kind": "photo"}]}, Code.INVALID_MESSAGE),
        (
            "extensions",
            {"entities": [{"kind": "url", "offset_utf16": 0, "length_utf16": None}]},
            Code.INVALID_MESSAGE,
        ),
        ("extensions", {"session_id": UUID4}, Code.INVALID_MESSAGE),
    ],
)
def test_every_rule_holds_for_the_wire(name: str, value: object, code: Code) -> None:
    with refused(code):
        message_from_wire(changed(**{name: value}))


def test_size_and_surrogates() -> None:
    with refused(Code.TOO_LARGE):
        message_from_wire(b"[" * 3_000_000)
    with refused(Code.INVALID_MESSAGE, "$.text"):
        message_to_wire(with_text(MESSAGE, "\ud83d"))
    wire = dumps(loads(changed(participant_key="tg:\ud83d")))
    assert message_from_wire(wire).participant_key == "tg:\ufffd"


def test_snowflakes_are_text_on_the_wire() -> None:
    """F50: the same digits in the text form and back."""
    for snowflake in ("1497549923779084389", "9223372036854775808"):
        message = attrs.evolve(
            MESSAGE, conversation_key=f"discord:{snowflake}", extensions=Extensions(channel_id=snowflake)
        )
        wire = message_to_wire(message)

        assert f'"channel_id":"{snowflake}"' in wire
        assert message_from_wire(wire) == message
