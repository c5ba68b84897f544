"""What an adapter read, as a message of the bus. Pure but for the new id."""

from __future__ import annotations

from ..actors.envelope import MessageEnvelope
from ..actors.errors import BusError, Code
from ..actors.extensions import EMPTY, Extensions
from ..actors.identifiers import new_uuid7, session_id_for
from ..actors.instants import rfc3339_from_us, us_from_rfc3339
from ..actors.keys import check_conversation_key
from ..actors.message import BusMessage, Direction, clean_text, is_plain_text, validate_message
from ..actors.value import changed_frozen
from .channel import Inbound

CONTENT_CODES = frozenset(
    {
        Code.INVALID_MESSAGE,
        Code.TOO_LARGE,
        Code.INVALID_TOPIC,
        Code.NO_SUBSCRIBER,
        Code.IDEMPOTENCY_KEY_REQUIRED,
    }
)
"""Refusals of one message for what it is: a linear edge counts them and goes on."""


def message_of(
    inbound: Inbound, *, channel: str, prefix: str, store_uuid: str, store_made_at_us: int, now_us: int
) -> BusMessage:
    """Make the message, not validated yet.

    Args:
        inbound: As read.
        channel: The adapter's name.
        prefix: Of its conversation keys.
        store_uuid, store_made_at_us: What session ids are derived from.
        now_us: Wall clock, microseconds since 1970 UTC.
    Raises:
        BusError: INVALID_MESSAGE, `sent_at` is no RFC 3339, the address is none, or a field has another type.
    """
    address, text, sent_at, extensions = inbound.address, inbound.text, inbound.sent_at, inbound.extensions
    sender = inbound.sender
    if (
        type(address) is not str
        or type(text) is not str
        or type(extensions) is not Extensions
        or (sent_at is not None and type(sent_at) is not str)
        or (sender is not None and type(sender) is not str)
    ):
        _check_types(inbound)
    key = f"{prefix}:{address}"
    if not key.isascii():
        # Before anything is derived from it: what cannot be encoded has neither session nor home.
        check_conversation_key(key)
    if extensions is EMPTY:
        extensions = changed_frozen(
            EMPTY,
            platform_message_id=inbound.platform_message_id,
            reply_to=inbound.reply_to,
            from_user_id=sender,
        )
    elif extensions.platform_message_id is None:
        extensions = changed_frozen(extensions, platform_message_id=inbound.platform_message_id)
    message_id = new_uuid7()
    return BusMessage(
        id=message_id,
        direction=Direction.INBOUND,
        channel=channel,
        topic=inbound.topic,
        conversation_key=key,
        participant_key=f"{prefix}:{sender}" if sender else None,
        idempotency_key=inbound.platform_message_id,
        correlation_id=message_id,
        payload=MessageEnvelope(
            message_id=inbound.platform_message_id,
            text=clean_text(text),
            sent_at=sent_at or rfc3339_from_us(now_us),
            session_id=inbound.session_id or session_id_for(store_uuid, store_made_at_us, key),
            reply_to=inbound.reply_to,
        ),
        created_at_us=us_from_rfc3339(sent_at, "sent_at") if sent_at else now_us,
        extensions=extensions,
        raw=inbound.raw,
    )


def check_arrival(inbound: Inbound, message: BusMessage) -> None:
    """Check every rule of what `message_of` has made: of a text and its ids these alone, for the rest is its own.

    Raises:
        BusError: as `validate_message`.
    """
    if (
        inbound.extensions is EMPTY
        and inbound.raw is None
        and inbound.session_id is None
        and is_plain_text(
            message.topic,
            message.conversation_key,
            message.payload.text,
            message.created_at_us,
            (inbound.platform_message_id, inbound.sender, inbound.reply_to),
        )
    ):
        return
    validate_message(message)


def _check_types(inbound: Inbound) -> None:
    for name, kind in (
        ("address", str),
        ("text", str),
        ("sent_at", str | None),
        ("sender", str | None),
        ("extensions", Extensions),
    ):
        # The fields are typed, yet what an adapter really passes is checked once here.
        value: object = getattr(inbound, name)
        if not isinstance(value, kind):
            raise BusError(
                Code.INVALID_MESSAGE, f"{name} must not be of type {type(value).__name__}", field=name
            )


__all__ = ["CONTENT_CODES", "check_arrival", "message_of"]
