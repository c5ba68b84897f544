import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardline.actors.envelope import MessageEnvelope
from shardline.actors.errors import BusError, Code
from shardline.actors.extensions import EMPTY, Attachment, Entity, Extensions, Kind
from shardline.actors.message import (
    DIALOGUE_TOPICS,
    MAX_MESSAGE_BYTES,
    MAX_RAW_BYTES,
    BusMessage,
    Direction,
    validate_message,
)
from tests.kits.words import make_message, messages, refused, spoiled, with_text

MESSAGE = make_message()
OUTBOUND = attrs.evolve(MESSAGE, direction=Direction.OUTBOUND)
PHOTO = Attachment(kind="photo", ref="FAKEfile1")


def with_extensions(message: BusMessage, **fields: object) -> BusMessage:
    return attrs.evolve(message, extensions=spoiled(Extensions(), **fields))


@given(message=messages())
def test_valid_messages_pass(message: BusMessage) -> None:
    validate_message(message)


def test_the_ordinary_message_passes_both_ways() -> None:
    validate_message(MESSAGE)
    validate_message(OUTBOUND)
    validate_message(attrs.evolve(MESSAGE, channel=None, participant_key=None, raw=None, extensions=EMPTY))


# What fields hold that nobody should put there, and what is good in some of them.
WRONG = (None, 0, -1, 2**63, True, 1.5, b"x")
ODD = st.sampled_from(
    (*WRONG, "", " a", "a ", "a\nb", "a\n b", "\x1fa", "\ud800", "a\u00a0", "ä", "x" * 300_000)
)
MESSAGE_FIELDS = tuple(f.name for f in attrs.fields(BusMessage) if f.name not in {"payload", "extensions"})
PAYLOAD_FIELDS = tuple(f.name for f in attrs.fields(MessageEnvelope))
EXTENSION_FIELDS = (
    "platform_message_id",
    "reply_to",
    "from_user_id",
    "from_first_name",
    "thread_ts",
    "callback_data",
)


def verdict(message: BusMessage) -> tuple[Code, object] | None:
    try:
        validate_message(message)
    except BusError as error:
        return error.code, error.context.get("field")
    return None


@given(
    own=st.dictionaries(st.sampled_from(MESSAGE_FIELDS), ODD, max_size=2),
    said=st.dictionaries(st.sampled_from(PAYLOAD_FIELDS), ODD, max_size=2),
    extra=st.none() | st.dictionaries(st.sampled_from(EXTENSION_FIELDS), ODD, max_size=2),
)
def test_the_quick_check_of_plain_messages_decides_as_the_rules_do(
    own: dict[str, object], said: dict[str, object], extra: dict[str, object] | None
) -> None:
    # A message without extensions is looked at in another way.
    extensions = EMPTY if extra is None else spoiled(MESSAGE.extensions, **extra)
    message = spoiled(MESSAGE, payload=spoiled(MESSAGE.payload, **said), extensions=extensions, **own)
    # An edit is valid and never plain: every rule is checked one by one.
    edited = spoiled(message, extensions=spoiled(extensions, edited_at_us=1))

    assert verdict(message) == verdict(edited)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"channel": MESSAGE.payload.session_id}, {"session_id": None}),
        ({"conversation_key": None, "id": "tg:1"}, {}),
        ({"conversation_key": "tg:1\nb"}, {}),
        ({"conversation_key": "b", "channel": "a\ntg:1"}, {}),
        ({"conversation_key": "tg:@name"}, {}),
        ({"channel": "a__b"}, {}),
        ({"channel": "tg", "conversation_key": "b"}, {}),
        ({}, {"session_id": f"{MESSAGE.payload.session_id}\na"}),
    ],
)
def test_no_field_of_a_plain_message_stands_for_another(
    own: dict[str, object], said: dict[str, object]
) -> None:
    message = spoiled(MESSAGE, payload=spoiled(MESSAGE.payload, **said), extensions=EMPTY, **own)

    with pytest.raises(BusError) as raised:
        validate_message(message)

    assert raised.value.code is Code.INVALID_MESSAGE


def test_dialogue_topics_are_the_four() -> None:
    assert {"share.proactive.v1", "dm.checkin.v1", "dm.reply.v1", "chat.message"} == DIALOGUE_TOPICS


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("direction", "sideways"),
        ("direction", None),
        ("id", ""),
        ("id", " a"),
        ("id", 7),
        ("channel", ""),
        ("channel", "Telegram"),
        ("channel", "a/b"),
        ("conversation_key", ""),
        ("conversation_key", "12345"),
        ("conversation_key", "tg:1 2"),
        ("conversation_key", "tg:\u00a01"),
        ("conversation_key", "tg:@ada"),
        ("conversation_key", None),
        ("participant_key", ""),
        ("participant_key", "a\u3000"),
        ("idempotency_key", "a "),
        ("idempotency_key", "\ud800"),
        ("idempotency_key", 5),
        ("correlation_id", ""),
        ("causation_id", ""),
        ("causation_id", "\ta"),
        ("payload", None),
        ("created_at_us", -1),
        ("created_at_us", 253_402_300_800_000_000),
        ("created_at_us", 1.5),
        ("created_at_us", "2026"),
        ("hops", -1),
        ("hops", True),
        ("hops", 2**63),
        ("raw", "text"),
        ("extensions", None),
    ],
)
def test_bad_field_is_named(field: str, bad: object) -> None:
    broken = spoiled(MESSAGE, **{field: bad})

    with refused(Code.INVALID_MESSAGE, field.removesuffix("_us")):
        validate_message(broken)


@pytest.mark.parametrize(
    "topic", ["", "Chat", "a..b", "system.metrics", "order shipped", None, 5, ["chat.message"]]
)
def test_bad_topic(topic: str) -> None:
    with refused(Code.INVALID_TOPIC):
        validate_message(attrs.evolve(MESSAGE, topic=topic))


@pytest.mark.parametrize("key", ["", None])
def test_missing_idempotency_key_has_its_own_code(key: str) -> None:
    with refused(Code.IDEMPOTENCY_KEY_REQUIRED):
        validate_message(attrs.evolve(MESSAGE, idempotency_key=key))


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("message_id", ""),
        ("message_id", "11 "),
        ("message_id", None),
        ("text", None),
        ("text", b"hi"),
        ("text", "\ud83d"),
        ("sent_at", ""),
        ("sent_at", "yesterday"),
        ("sent_at", "2026-02-30T00:00:00Z"),
        ("sent_at", 1760000000),
        ("session_id", ""),
        ("session_id", "0194F5C0-8F6E-7D9D-A4D7-6D8D4F35F456"),
        ("session_id", "0194f5c0-8f6e-4d9d-a4d7-6d8d4f35f456"),
        ("session_id", "0194f5c0-8f6e-7d9d-c4d7-6d8d4f35f456"),
        ("session_id", 7),
        ("reply_to", ""),
        ("reply_to", " 1"),
    ],
)
def test_bad_payload_field_is_named(field: str, bad: object) -> None:
    broken = attrs.evolve(MESSAGE, payload=spoiled(MESSAGE.payload, **{field: bad}))

    with refused(Code.INVALID_MESSAGE, f"payload.{field}"):
        validate_message(broken)


@pytest.mark.parametrize("topic", sorted(DIALOGUE_TOPICS))
def test_dialogue_needs_a_session(topic: str) -> None:
    bare = attrs.evolve(MESSAGE, topic=topic, payload=attrs.evolve(MESSAGE.payload, session_id=None))

    with refused(Code.INVALID_MESSAGE, "payload.session_id is required"):
        validate_message(bare)
    validate_message(attrs.evolve(bare, topic="ticket.opened"))


@pytest.mark.parametrize("kind", Kind)
def test_empty_text(kind: Kind) -> None:
    empty = with_extensions(with_text(MESSAGE, ""), kind=kind)

    if kind in (Kind.NEW, Kind.EDIT):
        with refused(Code.INVALID_MESSAGE, "payload.text"):
            validate_message(empty)
    else:
        validate_message(empty)
    validate_message(with_extensions(empty, kind=kind, attachments=(PHOTO,)))


@pytest.mark.parametrize("text", [" ", "\n\t", "\u00a0\u3000"])
def test_white_space_only_may_come_in_but_not_go_out(text: str) -> None:
    validate_message(with_text(MESSAGE, text))
    with refused(Code.INVALID_MESSAGE, "white space only"):
        validate_message(with_text(OUTBOUND, text))
    validate_message(with_extensions(with_text(OUTBOUND, text), attachments=(PHOTO,)))


def test_text_keeps_its_outer_white_space() -> None:
    for text in ("  hi\n", "\u001c"):
        validate_message(with_text(MESSAGE, text))
        validate_message(with_text(OUTBOUND, text))


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("platform_message_id", ""),
        ("platform_message_id", " 1"),
        ("platform_message_id", 11),
        ("reply_to", ""),
        ("from_user_id", 7000000001),
        ("team_id", "\n"),
        ("channel_id", ""),
        ("thread_ts", 1.5),
        ("event_id", ""),
        ("media_group_id", ""),
        ("business_connection_id", " "),
        ("session_id", "1"),
        ("from_first_name", "\ud800"),
        ("callback_data", 5),
        ("kind", "new"),
        ("mention_users", ("",)),
        ("edited_at_us", -1),
        ("edited_at_us", 1.5),
        ("attachments", (Attachment(kind="", ref="x"),)),
        ("attachments", (Attachment(kind="photo", ref=""),)),
        ("attachments", (Attachment(kind="photo", ref="x", name="\ud800"),)),
        ("attachments", (Attachment(kind="photo", ref="x", size_bytes=-1),)),
        ("entities", (Entity(kind="", offset_utf16=0, length_utf16=1),)),
        ("entities", (Entity(kind="url", offset_utf16=-1, length_utf16=1),)),
        ("entities", (Entity(kind="url", offset_utf16=0, length_utf16=-1),)),
        ("entities", (Entity(kind="url", offset_utf16=0, length_utf16=1, url="\ud800"),)),
        ("entities", (Entity(kind="url", offset_utf16=0, length_utf16=1, user_id=""),)),
    ],
)
def test_bad_extension_is_named(field: str, bad: object) -> None:
    with refused(Code.INVALID_MESSAGE, f"extensions.{field.removesuffix('_us')}"):
        validate_message(with_extensions(MESSAGE, **{field: bad}))


def test_peoples_names_are_kept_as_they_are() -> None:
    validate_message(
        with_extensions(MESSAGE, from_first_name=" Ada ", from_last_name="", callback_data=" ok:1")
    )


def test_raw_is_limited() -> None:
    validate_message(attrs.evolve(MESSAGE, raw=b"x" * MAX_RAW_BYTES))
    with refused(Code.TOO_LARGE, "raw"):
        validate_message(attrs.evolve(MESSAGE, raw=b"x" * (MAX_RAW_BYTES + 1)))


def test_a_message_is_limited_in_bytes() -> None:
    room_bytes = MAX_MESSAGE_BYTES - 1_000
    validate_message(with_text(MESSAGE, "a" * room_bytes))
    validate_message(with_text(MESSAGE, "é" * (room_bytes // 2)))

    for large in (
        with_text(MESSAGE, "a" * MAX_MESSAGE_BYTES),
        with_text(MESSAGE, "é" * (MAX_MESSAGE_BYTES // 2)),
        attrs.evolve(MESSAGE, idempotency_key="k" * MAX_MESSAGE_BYTES),
        with_extensions(MESSAGE, from_first_name="n" * MAX_MESSAGE_BYTES),
        with_extensions(MESSAGE, mention_users=("u" * 1_000,) * 1_050),
        with_extensions(MESSAGE, attachments=(Attachment(kind="photo", ref="r" * 1_000),) * 1_050),
        with_extensions(
            MESSAGE, entities=(Entity(kind="e" * 1_000, offset_utf16=0, length_utf16=1),) * 1_050
        ),
    ):
        with refused(Code.TOO_LARGE):
            validate_message(large)


def test_raw_is_not_shown() -> None:
    assert "secret" not in repr(attrs.evolve(MESSAGE, raw=b"secret"))


def test_messages_are_frozen_slots() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        MESSAGE.hops = 1  # type: ignore[misc]  # that it is refused is the test
    assert not hasattr(MESSAGE, "__dict__")
