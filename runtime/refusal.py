"""What is kept of a message that a linear edge could not refuse to its sender: enough to see what it was. Pure."""

from __future__ import annotations

from ..actors.envelope import MessageEnvelope
from ..actors.errors import BusError
from ..actors.extensions import Extensions, Kind
from ..actors.identifiers import new_uuid7
from ..actors.instants import rfc3339_from_us
from ..actors.keys import check_conversation_key
from ..actors.message import MAX_RAW_BYTES, BusMessage, Direction
from ..actors.names import canonical
from ..actors.text import clean_text
from .channel import NO_ADDRESS, UNKNOWN_TOPIC, Inbound

_MAX_ID_CHARACTERS = 512
_MAX_TEXT_CHARACTERS = 64 * 1024


def refused_message(inbound: Inbound, *, channel: str, prefix: str, now_us: int) -> BusMessage:
    """A message that keeps every rule, of one that may break any.

    Args:
        inbound: As read; nothing in it is relied on, not even its types.
        channel: The adapter's name.
        prefix: Of its conversation keys.
        now_us: Wall clock, microseconds since 1970 UTC.
    Returns:
        Its id, conversation and sender where they are valid, the beginning of its text and of its raw bytes. Without a
        valid address it belongs to the conversation `prefix:~none`. Its topic is `channel.unknown`: nobody handles it.
    """
    message_id = new_uuid7()
    platform_id = platform_id_of(inbound)
    sender = _id(inbound.sender)
    text, raw = _as_object(inbound.text), _as_object(inbound.raw)
    return BusMessage(
        id=message_id,
        direction=Direction.INBOUND,
        channel=channel,
        topic=UNKNOWN_TOPIC,
        conversation_key=_key(prefix, inbound.address),
        participant_key=None if sender is None else f"{prefix}:{sender}",
        idempotency_key=platform_id or message_id,
        correlation_id=message_id,
        payload=MessageEnvelope(
            message_id=platform_id or message_id,
            text=clean_text(text[:_MAX_TEXT_CHARACTERS]) if isinstance(text, str) else "",
            sent_at=rfc3339_from_us(now_us),
            session_id=None,
            reply_to=_id(inbound.reply_to),
        ),
        created_at_us=now_us,
        extensions=Extensions(platform_message_id=platform_id, from_user_id=sender, kind=Kind.UNKNOWN),
        raw=raw[:MAX_RAW_BYTES] if isinstance(raw, bytes) else None,
    )


def platform_id_of(inbound: Inbound) -> str | None:
    """The platform's id of the message, by which repeats are known; None where it is no valid one."""
    return _id(inbound.platform_message_id)


def _id(value: str | None) -> str | None:
    if value is None or not isinstance(_as_object(value), str) or len(value) > _MAX_ID_CHARACTERS:
        return None
    try:
        return canonical(value, "id")
    except BusError:
        return None


def _key(prefix: str, address: str) -> str:
    given = _id(address)
    if given is not None:
        try:
            return check_conversation_key(f"{prefix}:{given}")
        except BusError:
            pass  # no conversation of this channel
    return f"{prefix}:{NO_ADDRESS}"


def _as_object(value: object) -> object:
    # The fields are typed, yet what an adapter really passes is seen here.
    return value


__all__ = ["platform_id_of", "refused_message"]
