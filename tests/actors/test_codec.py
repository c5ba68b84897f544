import math

import attrs
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.actors.codec import (
    CODEC_VERSION,
    MAX_RECORD_BYTES,
    pack_event,
    pack_message,
    pack_plain,
    unpack_event,
    unpack_message,
    unpack_plain,
)
from shardline.actors.envelope import MessageEnvelope
from shardline.actors.errors import Code
from shardline.actors.event import Event
from shardline.actors.extensions import EMPTY, Extensions, Kind
from shardline.actors.message import MAX_MESSAGE_BYTES, BusMessage, Direction
from shardline.actors.plain import Plain
from tests.kits.words import MESSAGE_ID, make_message, messages, plain_values, refusal_of, refused, with_text

LIMIT = 1_000_000


@given(value=plain_values())
def test_plain_round_trip(value: Plain) -> None:
    packed = pack_plain(value, limit_bytes=LIMIT, what="state")
    back = unpack_plain(packed, limit_bytes=LIMIT)

    # By repr: 1, 1.0 and True differ, -0.0 stays.
    assert repr(back) == repr(value)


@pytest.mark.parametrize(
    "value", [{"x": math.nan}, {"x": {1, 2}}, {"x": 2**64}, {"x": (1,)}, {"x": "\ud800"}]
)
def test_what_cannot_be_stored_is_named_by_path(value: object) -> None:
    """F48: refused at enqueue with the path, no bytes are made."""
    with refused(Code.INVALID_MESSAGE, "$.x"):
        pack_plain(value, limit_bytes=LIMIT, what="payload")


def test_limits_both_ways() -> None:
    packed = pack_plain("a" * 98, limit_bytes=100, what="state")
    assert len(packed) == 100
    with refused(Code.TOO_LARGE, "state has 101 bytes, at most 100"):
        pack_plain("a" * 99, limit_bytes=100, what="state")
    with refused(Code.TOO_LARGE):
        unpack_plain(packed, limit_bytes=99)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x01\x02",
        b"\x92\x01",
        b"\xa2\xff\xfe",
        b"\x81\x01\x02",
        b"\x81\xc4\x01a\x02",
        b"\x81\xc0\x02",
        b"\x81\x90\x02",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xd6\xff\x00\x00\x00\x00",
        b"\xc7\x01\x05a",
        b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
        b"\xca\x7f\x80\x00\x00",
        b"\x91" * 65 + b"\xc0",
        b"\x91" * 5_000 + b"\xc0",
    ],
)
def test_damaged_bytes_are_one_typed_error(data: bytes) -> None:
    with refused(Code.INVALID_MESSAGE):
        unpack_plain(data, limit_bytes=LIMIT)


@given(data=st.binary(max_size=40))
def test_any_bytes_are_a_value_or_one_typed_error(data: bytes) -> None:
    for unpack in (
        lambda: unpack_plain(data, limit_bytes=LIMIT),
        lambda: unpack_message(data, CODEC_VERSION),
        lambda: unpack_event(data, CODEC_VERSION),
    ):
        assert refusal_of(unpack) in (None, Code.INVALID_MESSAGE)


@given(message=messages(), raw=st.none() | st.binary(max_size=5))
def test_message_round_trip(message: BusMessage, raw: bytes | None) -> None:
    data = pack_message(attrs.evolve(message, raw=b"not in the record"))

    assert unpack_message(data, CODEC_VERSION, raw=raw) == attrs.evolve(message, raw=raw)


@given(
    event=st.builds(
        Event,
        id=st.just(MESSAGE_ID),
        ts_us=st.integers(0, 2**53),
        topic=st.just("order.shipped"),
        key=st.none() | st.text(max_size=5),
        headers=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
        payload=plain_values(),
        payload_sha256=st.none() | st.just("0" * 64),
        space_id=st.none() | st.text(max_size=5),
        type=st.none() | st.text(max_size=5),
        actor=st.none() | st.text(max_size=5),
        trace_id=st.none() | st.text(max_size=5),
        idem_key=st.none() | st.text(max_size=5),
        ttl_s=st.none() | st.floats(0.1, 1e9) | st.integers(1, 1_000),
        hops=st.integers(0, 64),
    )
)
def test_event_round_trip(event: Event) -> None:
    assert unpack_event(pack_event(event), CODEC_VERSION) == event


def test_the_record_has_full_names_and_no_empty_fields() -> None:
    bare = attrs.evolve(
        make_message(),
        channel=None,
        participant_key=None,
        extensions=Extensions(),
        payload=attrs.evolve(make_message().payload, session_id=None),
    )

    assert msgpack.unpackb(pack_message(bare)) == {
        "id": MESSAGE_ID,
        "direction": "inbound",
        "topic": "chat.message",
        "conversation_key": "tg:7000000001",
        "idempotency_key": "telegram:7000000001:11",
        "correlation_id": MESSAGE_ID,
        "payload": {"message_id": "11", "text": "hi", "sent_at": "2026-02-16T11:12:00Z"},
        "created_at_us": 1_760_000_000_000_000,
    }


def test_the_event_record_has_no_empty_fields() -> None:
    data = pack_event(Event(id="1", ts_us=0, topic="a", payload=[1]))

    assert msgpack.unpackb(data) == {"id": "1", "ts_us": 0, "topic": "a", "payload": b"\x91\x01"}


def test_an_old_record_is_read_for_ever() -> None:
    """Version 1 as it was first written; a change that breaks this needs version 2."""
    data = bytes.fromhex(
        "8ba26964d92430313934663563302d386636652d373030302d383030302d303030303030303030303031a96469"
        "72656374696f6ea7696e626f756e64a5746f706963ac636861742e6d657373616765b0636f6e76657273617469"
        "6f6e5f6b6579ad74673a37303030303030303031af6964656d706f74656e63795f6b6579b674656c656772616d"
        "3a373030303030303030313a3131ae636f7272656c6174696f6e5f6964d92430313934663563302d386636652d"
        "373030302d383030302d303030303030303030303031a77061796c6f616484aa6d6573736167655f6964a23131"
        "a474657874a26869a773656e745f6174b4323032362d30322d31365431313a31323a30305aaa73657373696f6e"
        "5f6964d92430313934663563302d386636652d376439642d613464372d366438643466333566343536ad637265"
        "617465645f61745f7573cf000640b5eece0000a76368616e6e656ca874656c656772616daf7061727469636970"
        "616e745f6b6579ad74673a37303030303030303031aa657874656e73696f6e7382b3706c6174666f726d5f6d65"
        "73736167655f6964ad373030303030303030313a3131ac66726f6d5f757365725f6964aa373030303030303030"
        "31"
    )

    assert unpack_message(data, 1) == attrs.evolve(make_message(), raw=None)


def test_keys_of_a_newer_version_are_ignored() -> None:
    message = attrs.evolve(make_message(), raw=None)
    record = msgpack.unpackb(pack_message(message))
    record["later"] = [1]
    record["payload"]["later"] = 1
    record["extensions"] |= {"later": {"a": 1}, "kind": "hologram"}

    back = unpack_message(msgpack.packb(record), CODEC_VERSION)

    assert back.extensions.kind is Kind.UNKNOWN
    assert attrs.evolve(back, extensions=message.extensions) == message


@pytest.mark.parametrize("version", [0, 2, -1])
def test_other_codec_versions_are_too_new(version: int) -> None:
    event = Event(id="1", ts_us=0, topic="a")

    with refused(Code.SCHEMA_TOO_NEW):
        unpack_message(pack_message(make_message()), version)
    with refused(Code.SCHEMA_TOO_NEW):
        unpack_event(pack_event(event), version)


def damaged(**changes: object) -> bytes:
    record = msgpack.unpackb(pack_message(make_message()))
    for name, value in changes.items():
        if value is None:
            del record[name]
        else:
            record[name] = value
    return msgpack.packb(record)


@pytest.mark.parametrize(
    "data",
    [
        b"\x90",
        b"\xc0",
        damaged(id=None),
        damaged(id=5),
        damaged(direction="sideways"),
        damaged(payload=None),
        damaged(payload="hi"),
        damaged(payload={"message_id": "1", "sent_at": "x"}),
        damaged(created_at_us=1.5),
        damaged(created_at_us=True),
        damaged(hops="1"),
        damaged(extensions=[1]),
        damaged(extensions={"from_user_id": 7}),
        damaged(extensions={"mention_users": [1]}),
        damaged(extensions={"mention_users": "a"}),
        damaged(extensions={"attachments": ["a"]}),
        damaged(extensions={"entities": [{"kind": "url"}]}),
        damaged(extensions={"edited_at_us": "x"}),
        pack_message(make_message())[:-1],
    ],
)
def test_damaged_messages_are_one_typed_error(data: bytes) -> None:
    with refused(Code.INVALID_MESSAGE):
        unpack_message(data, CODEC_VERSION)


@pytest.mark.parametrize(
    "changes", [{"payload": 1}, {"ttl_s": "1"}, {"ttl_s": True}, {"headers": {"a": 1}}, {"id": 1}]
)
def test_damaged_events_are_one_typed_error(changes: dict[str, Plain]) -> None:
    record = msgpack.unpackb(pack_event(Event(id="1", ts_us=0, topic="a", payload=[1], headers={"a": "b"})))

    with refused(Code.INVALID_MESSAGE):
        unpack_event(msgpack.packb(record | changes), CODEC_VERSION)


def test_unchecked_messages_that_cannot_be_packed() -> None:
    with refused(Code.INVALID_MESSAGE):
        pack_message(with_text(make_message(), "\ud83d"))
    with refused(Code.INVALID_MESSAGE):
        pack_message(attrs.evolve(make_message(), created_at_us=2**70))
    with refused(Code.TOO_LARGE):
        pack_message(with_text(make_message(), "a" * MAX_RECORD_BYTES))


def test_event_payloads_are_limited() -> None:
    with refused(Code.TOO_LARGE, "payload"):
        pack_event(Event(id="1", ts_us=0, topic="a", payload="a" * MAX_MESSAGE_BYTES))


def test_platform_ids_come_back_digit_by_digit() -> None:
    """F50: 64-bit ids through the stored form."""
    for snowflake in ("1497549923779084389", "9223372036854775808"):
        message = BusMessage(
            id=MESSAGE_ID,
            direction=Direction.INBOUND,
            channel="discord",
            topic="chat.message",
            conversation_key=f"discord:{snowflake}",
            idempotency_key=snowflake,
            correlation_id=MESSAGE_ID,
            payload=MessageEnvelope(message_id=snowflake, text="hi", sent_at="2026-02-16T11:12:00Z"),
            created_at_us=0,
            extensions=Extensions(channel_id=snowflake),
        )
        back = unpack_message(pack_message(message), CODEC_VERSION)

        assert back == message
        assert back.extensions.channel_id == snowflake


def test_no_extensions_cost_no_object() -> None:
    data = pack_message(attrs.evolve(make_message(), extensions=EMPTY))

    assert unpack_message(data, CODEC_VERSION).extensions is EMPTY
