"""The message: one frozen value for everything that comes in or goes out, and the rules it keeps."""

import re
from collections.abc import Callable
from enum import StrEnum, unique
from functools import partial
from operator import attrgetter, is_not
from typing import TypeGuard, cast

import attrs

from .envelope import MessageEnvelope
from .errors import BusError, Code
from .extensions import EMPTY, Extensions, Kind
from .given import shown
from .identifiers import is_uuid7
from .instants import MAX_AT_US, check_rfc3339
from .keys import check_conversation_key
from .names import WHITE_SPACE, canonical, check_name, check_topic
from .text import clean_text, has_lone_surrogate

__all__ = [
    "DIALOGUE_TOPICS",
    "MAX_MESSAGE_BYTES",
    "MAX_RAW_BYTES",
    "BusMessage",
    "Direction",
    "clean_text",
    "is_plain",
    "is_plain_text",
    "validate_message",
]

DIALOGUE_TOPICS = frozenset({"share.proactive.v1", "dm.checkin.v1", "dm.reply.v1", "chat.message"})
"""Built-in topics; their messages carry a session."""

MAX_MESSAGE_BYTES = 1_048_576
"""UTF-8 bytes of all texts of a message, without `raw`."""

MAX_RAW_BYTES = 262_144
"""Bytes of the update as it came."""

_ID_FIELDS = (
    "platform_message_id",
    "reply_to",
    "from_user_id",
    "team_id",
    "channel_id",
    "thread_ts",
    "event_id",
    "media_group_id",
    "business_connection_id",
)
_TEXT_FIELDS = (
    "chat_type",
    "from_username",
    "from_first_name",
    "from_last_name",
    "from_display_name",
    "from_user_ref",
    "callback_data",
)
Texts = Callable[[Extensions], tuple[str | None, ...]]
_ids_of = cast("Texts", attrgetter(*_ID_FIELDS))
_texts_of = cast("Texts", attrgetter(*_TEXT_FIELDS))

# All of a message at once, for `is_plain`; the ids that every message has come first.
# In the order of `_PLAIN_MESSAGE`'s first lines, then those that are required, then those that are not.
_OWN_IDS = (
    "payload.session_id", "channel",
    "conversation_key", "id", "idempotency_key", "correlation_id", "payload.message_id",
    "participant_key", "causation_id", "payload.reply_to",
)  # fmt: skip
IdsOf = Callable[["BusMessage"], tuple[str | None, ...]]
_own_ids_of = cast("IdsOf", attrgetter(*_OWN_IDS))
_all_ids_of = cast("IdsOf", attrgetter(*_OWN_IDS, *(f"extensions.{name}" for name in _ID_FIELDS)))
_all_texts_of = cast(
    "Callable[[BusMessage], tuple[str | None, ...]]",
    attrgetter("payload.text", *(f"extensions.{name}" for name in _TEXT_FIELDS)),
)
_rare_of = attrgetter(
    "extensions.session_id",
    "extensions.edited_at_us",
    "extensions.mention_users",
    "extensions.attachments",
    "extensions.entities",
)
_NOTHING_RARE = (None, None, (), (), ())
_is_given = cast("Callable[[str | None], TypeGuard[str]]", partial(is_not, None))
_REQUIRED_IDS = slice(2, 7)
# Printable ASCII without outer spaces, one id a line.
_PLAIN_IDS = re.compile(r"[!-~](?:[ -~]*[!-~])?(?:\n[!-~](?:[ -~]*[!-~])?)*")
# A UUIDv7, the name of a channel, a conversation key, ids. What keeps the rules otherwise is for the rules to find.
_PLAIN_MESSAGE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    r"(?:\n[a-z0-9](?:[_.-]?[a-z0-9]){0,31})?"
    r"\n(?!tg:@)[a-z0-9][a-z0-9_-]{0,31}:[!-~]+"
    r"(?:\n[!-~](?:[ -~]*[!-~])?)*"
)


@unique
class Direction(StrEnum):
    """Which way a message goes, seen from the bot."""

    INBOUND = "inbound"
    OUTBOUND = "outbound"


_parts_of = cast(
    "Callable[[BusMessage], tuple[Direction, Kind, str, str, str, int, int]]",
    attrgetter(
        "direction",
        "extensions.kind",
        "topic",
        "payload.sent_at",
        "payload.text",
        "hops",
        "created_at_us",
    ),
)
_PART_TYPES = (Direction, Kind, str, str, str, int, int)
_INBOUND, _NEW = Direction.INBOUND, Kind.NEW
"""As constants: a look-up in an enum costs a tenth of a microsecond."""


@attrs.frozen(kw_only=True)
class BusMessage:
    """A message of a conversation. Built unchecked: `validate_message` holds the rules, edges call it."""

    id: str
    direction: Direction
    channel: str | None
    """The channel's name, such as `telegram`; None if it never was on one."""
    topic: str
    conversation_key: str
    participant_key: str | None = None
    """Who speaks, in the form of a conversation key."""
    idempotency_key: str
    correlation_id: str
    """Shared by all that one first message caused."""
    causation_id: str | None = None
    """Id of the message that caused this one."""
    payload: MessageEnvelope
    created_at_us: int
    """The platform's time, microseconds since 1970 UTC; orders nothing."""
    hops: int = 0
    """Length of the chain of causes."""
    extensions: Extensions = EMPTY
    raw: bytes | None = attrs.field(default=None, repr=False)
    """The update's bytes as they came, at most 256 KiB."""


def validate_message(message: BusMessage) -> None:
    """Check every rule of a message; returns None if it keeps all.

    Raises:
        BusError: INVALID_TOPIC, IDEMPOTENCY_KEY_REQUIRED, TOO_LARGE, else INVALID_MESSAGE with the field's name in
            the context.
    """
    if is_plain(message):
        return
    if not _is(message.direction, Direction):
        raise _refused("direction", "must be inbound or outbound")
    if not _is(message.topic, str) or message.topic not in DIALOGUE_TOPICS:
        check_topic(message.topic)
    if not message.idempotency_key:
        raise BusError(
            Code.IDEMPOTENCY_KEY_REQUIRED, "the message has no idempotency key", field="idempotency_key"
        )
    canonical(message.id, "id")
    canonical(message.conversation_key, "conversation_key")
    check_conversation_key(message.conversation_key)
    canonical(message.idempotency_key, "idempotency_key")
    canonical(message.correlation_id, "correlation_id")
    if message.channel is not None:
        check_name(message.channel, "channel")
    if message.participant_key is not None:
        canonical(message.participant_key, "participant_key")
    if message.causation_id is not None:
        canonical(message.causation_id, "causation_id")
    _check_count(message.hops, "hops")
    _check_instant(message.created_at_us, "created_at")
    _check_raw(message.raw)
    if not _is(message.extensions, Extensions):
        raise _refused("extensions", "must be Extensions")
    _check_payload(message)
    if message.extensions is not EMPTY:
        _check_extensions(message.extensions)
    _check_size(message)


def is_plain_text(topic: str, key: str, text: str, created_at_us: int, ids: tuple[str | None, ...]) -> bool:
    """Whether a message made of these alone certainly keeps every rule; all else of it is of our own making.

    Args:
        topic, key, text, created_at_us: As in the message; the text has no lone surrogate.
        ids: The texts that become ids; the first one is required.
    Raises:
        BusError: INVALID_MESSAGE, the key certainly keeps none.
    """
    try:
        joined = "\n".join(filter(_is_given, ids))
        is_known = topic in DIALOGUE_TOPICS
    except TypeError:
        return False
    if (
        not is_known
        or ids[0] is None
        or not text
        or _PLAIN_IDS.fullmatch(joined) is None
        # Some ids stand in the message two or three times.
        or (3 * len(joined) + 2 * len(key) + len(text)) * 4 > MAX_MESSAGE_BYTES // 2
        or not 0 <= created_at_us <= MAX_AT_US
        or not key.isascii()
        or key[-1] <= " "
    ):
        return False
    check_conversation_key(key)
    return True


def is_plain(message: BusMessage) -> bool:
    """Whether a message certainly keeps every rule: what nearly all do is checked at once, the rest one by one.

    Raises:
        BusError: INVALID_MESSAGE, it certainly does not.
    """
    try:
        payload = message.payload
    except AttributeError as error:
        # What a program passes that is no message at all; a `try` costs the others nothing.
        raise BusError(Code.INVALID_MESSAGE, f"a BusMessage is wanted, not {shown(message)}") from error
    if type(payload) is not MessageEnvelope or type(message.extensions) is not Extensions:
        return False
    # The one without extensions has nothing in it to look at.
    is_bare = message.extensions is EMPTY
    ids = _own_ids_of(message) if is_bare else _all_ids_of(message)
    try:
        # Only None is left out: an empty id, or another empty value, is for the rules to refuse.
        joined = "\n".join(filter(_is_given, ids))
        free = payload.text if is_bare else "".join(filter(_is_given, _all_texts_of(message)))
    except TypeError:
        return False
    parts = _parts_of(message)
    if tuple(map(type, parts)) != _PART_TYPES:
        return False
    direction, kind, topic, sent_at, text, hops, at_us = parts
    raw = message.raw
    if (
        _PLAIN_MESSAGE.fullmatch(joined) is None
        # A line is an id: none has a line's end of its own.
        or joined.count("\n") + ids.count(None) != len(ids) - 1
        or (not free.isascii() and has_lone_surrogate(free))
        or (len(joined) + len(free)) * 4 > MAX_MESSAGE_BYTES
        or ids[0] is None
        or None in ids[_REQUIRED_IDS]
        or not text
        or topic not in DIALOGUE_TOPICS
        or direction is not _INBOUND
        or kind is not _NEW
        or not (is_bare or _rare_of(message) == _NOTHING_RARE)
        or not 0 <= hops < 2**63
        or not 0 <= at_us <= MAX_AT_US
        or (raw is not None and not (type(raw) is bytes and len(raw) <= MAX_RAW_BYTES))
    ):
        return False
    check_rfc3339(sent_at, "payload.sent_at")
    return True


def _check_payload(message: BusMessage) -> None:
    payload = message.payload
    if not _is(payload, MessageEnvelope):
        raise _refused("payload", "is required")
    canonical(payload.message_id, "payload.message_id")
    check_rfc3339(canonical(payload.sent_at, "payload.sent_at"), "payload.sent_at")
    if payload.reply_to is not None:
        canonical(payload.reply_to, "payload.reply_to")
    if payload.session_id is None:
        if message.topic in DIALOGUE_TOPICS:
            raise _refused("payload.session_id", f"is required on {message.topic}")
    elif not _is(payload.session_id, str) or not is_uuid7(payload.session_id):
        raise _refused("payload.session_id", "must be a UUIDv7 of 36 lower-case characters")
    _check_text(message)


def _check_text(message: BusMessage) -> None:
    text = message.payload.text
    if not _is(text, str):
        raise _refused("payload.text", "must be text")
    if has_lone_surrogate(text):
        raise _refused("payload.text", "holds a lone surrogate")
    extensions = message.extensions
    if extensions.attachments or extensions.kind not in (Kind.NEW, Kind.EDIT):
        return
    if not text:
        raise _refused("payload.text", "is empty and nothing is attached")
    if message.direction is Direction.OUTBOUND and not text.strip(WHITE_SPACE):
        raise _refused("payload.text", "is white space only")


def _check_extensions(extensions: Extensions) -> None:
    for name, value in zip(_ID_FIELDS, _ids_of(extensions), strict=True):
        if value is not None:
            canonical(value, f"extensions.{name}")
    for name, value in zip(_TEXT_FIELDS, _texts_of(extensions), strict=True):
        if value is not None:
            _check_free_text(value, f"extensions.{name}")
    if extensions.session_id is not None and not is_uuid7(
        canonical(extensions.session_id, "extensions.session_id")
    ):
        raise _refused("extensions.session_id", "must be a UUIDv7 of 36 lower-case characters")
    if not _is(extensions.kind, Kind):
        raise _refused("extensions.kind", "must be a Kind")
    if extensions.edited_at_us is not None:
        _check_instant(extensions.edited_at_us, "extensions.edited_at")
    for user in extensions.mention_users:
        canonical(user, "extensions.mention_users")
    for attachment in extensions.attachments:
        canonical(attachment.kind, "extensions.attachments.kind")
        canonical(attachment.ref, "extensions.attachments.ref")
        for text in (attachment.name, attachment.mime_type):
            if text is not None:
                _check_free_text(text, "extensions.attachments")
        if attachment.size_bytes is not None:
            _check_count(attachment.size_bytes, "extensions.attachments.size_bytes")
    for entity in extensions.entities:
        canonical(entity.kind, "extensions.entities.kind")
        _check_count(entity.offset_utf16, "extensions.entities.offset")
        _check_count(entity.length_utf16, "extensions.entities.length")
        if entity.url is not None:
            _check_free_text(entity.url, "extensions.entities.url")
        if entity.user_id is not None:
            canonical(entity.user_id, "extensions.entities.user_id")


def _check_free_text(value: str, what: str) -> None:
    if not _is(value, str):
        raise _refused(what, "must be text")
    if has_lone_surrogate(value):
        raise _refused(what, "holds a lone surrogate")


def _check_count(value: int, what: str) -> None:
    if not _is(value, int) or _is(value, bool) or not 0 <= value < 2**63:
        raise _refused(what, "must be an integer, 0 or more")


def _check_instant(value: int, what: str) -> None:
    if not _is(value, int) or _is(value, bool) or not 0 <= value <= MAX_AT_US:
        raise _refused(what, "must be microseconds since 1970, before the year 10000")


def _check_raw(raw: bytes | None) -> None:
    if raw is None:
        return
    if not _is(raw, bytes):
        raise _refused("raw", "must be bytes")
    if len(raw) > MAX_RAW_BYTES:
        raise BusError(Code.TOO_LARGE, f"raw has {len(raw)} bytes, at most {MAX_RAW_BYTES}", field="raw")


def _check_size(message: BusMessage) -> None:
    texts = [
        message.id,
        message.conversation_key,
        message.participant_key or "",
        message.idempotency_key,
        message.correlation_id,
        message.causation_id or "",
        message.payload.message_id,
        message.payload.text,
        message.payload.reply_to or "",
    ]
    extensions = message.extensions
    if extensions is not EMPTY:
        texts.extend(filter(None, _ids_of(extensions)))
        texts.extend(filter(None, _texts_of(extensions)))
        texts.extend(extensions.mention_users)
        for attachment in extensions.attachments:
            texts += [attachment.kind, attachment.ref, attachment.name or "", attachment.mime_type or ""]
        for entity in extensions.entities:
            texts += [entity.kind, entity.url or "", entity.user_id or ""]
    # Four bytes a character at most, so only long messages are encoded to be counted.
    if sum(map(len, texts)) * 4 > MAX_MESSAGE_BYTES and len("".join(texts).encode()) > MAX_MESSAGE_BYTES:
        raise BusError(
            Code.TOO_LARGE,
            f"the message has more than {MAX_MESSAGE_BYTES} bytes of text",
            limit=MAX_MESSAGE_BYTES,
        )


def _is(value: object, kind: type) -> bool:
    # Through `object`: the fields are typed, yet what an adapter really passes is checked once here.
    return isinstance(value, kind)


def _refused(what: str, reason: str) -> BusError:
    return BusError(Code.INVALID_MESSAGE, f"{what} {reason}", field=what)
