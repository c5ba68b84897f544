"""The envelope: the payload of a message, and its wire form, JSON in unpadded base64url."""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

import attrs

from .errors import BusError, Code
from .names import canonical
from .plain import Plain
from .record import check_keys, optional_text, required_text
from .strict_json import MAX_JSON_BYTES, dumps, loads

__all__ = [
    "MessageEnvelope",
    "base64url_from_bytes",
    "bytes_from_base64url",
    "payload_from_base64",
    "payload_to_base64",
]

_ALPHABET = re.compile(r"[A-Za-z0-9_-]*")
_FIELDS = frozenset({"message_id", "text", "sent_at", "session_id", "reply_to"})


@attrs.frozen(kw_only=True)
class MessageEnvelope:
    """What was said: built unchecked, `validate_message` holds the rules."""

    message_id: str
    text: str
    """As written, white space kept."""
    sent_at: str
    """RFC 3339, the sender's clock."""
    session_id: str | None = None
    """UUIDv7; required on dialogue topics."""
    reply_to: str | None = None
    """`message_id` of the message that this one answers."""


def payload_to_base64(envelope: MessageEnvelope) -> str:
    """Write the wire form.

    Raises:
        BusError: INVALID_MESSAGE, a text holds a lone surrogate.
    """
    fields: dict[str, Plain] = {
        "message_id": envelope.message_id,
        "text": envelope.text,
        "sent_at": envelope.sent_at,
    }
    if envelope.session_id is not None:
        fields["session_id"] = envelope.session_id
    if envelope.reply_to is not None:
        fields["reply_to"] = envelope.reply_to
    return base64url_from_bytes(dumps(fields).encode())


def payload_from_base64(encoded: str) -> MessageEnvelope:
    """Read the wire form, strictly: no padding, no line breaks; exact, known, single keys; no null.

    Returns:
        The envelope; ids and times are not empty, their form is `validate_message`'s matter.
    Raises:
        BusError: INVALID_MESSAGE or TOO_LARGE.
    """
    value = loads(bytes_from_base64url(encoded, "payload_base64"))
    if not isinstance(value, dict):
        raise BusError(Code.INVALID_MESSAGE, "payload_base64 must hold a JSON object")
    check_keys(value, _FIELDS, "payload")
    return MessageEnvelope(
        message_id=canonical(required_text(value, "message_id"), "payload.message_id"),
        text=required_text(value, "text"),
        sent_at=canonical(required_text(value, "sent_at"), "payload.sent_at"),
        session_id=optional_text(value, "session_id"),
        reply_to=optional_text(value, "reply_to"),
    )


def base64url_from_bytes(data: bytes) -> str:
    """Encode bytes as base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def bytes_from_base64url(encoded: str, what: str, *, limit_bytes: int = MAX_JSON_BYTES) -> bytes:
    """Decode base64url without padding; each byte string has exactly one accepted form.

    Raises:
        BusError: INVALID_MESSAGE, a foreign character, padding, line break, or unused bits that are not zero;
            TOO_LARGE, more than `limit_bytes` decoded.
    """
    if len(encoded) > limit_bytes * 4 // 3 + 3:
        raise BusError(Code.TOO_LARGE, f"{what} has more than {limit_bytes} bytes", limit_bytes=limit_bytes)
    if _ALPHABET.fullmatch(encoded) is None:
        raise BusError(Code.INVALID_MESSAGE, f"{what} is not unpadded base64url", field=what)
    try:
        data = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    except binascii.Error as error:
        raise BusError(
            Code.INVALID_MESSAGE, f"{what} is not unpadded base64url: {error}", field=what
        ) from error
    if base64url_from_bytes(data) != encoded:
        raise BusError(
            Code.INVALID_MESSAGE, f"{what} is not unpadded base64url: unused bits are set", field=what
        )
    return data
