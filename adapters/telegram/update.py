"""Updates of the Bot API as messages. Pure: one update in, what it is out.

| update | is |
|---|---|
| message, channel_post, business_message | a message; a migration also says that the chat has moved |
| edited_* | a message with an identity of its own, `<chat>:<message>:edit:<update>` |
| callback_query | a message whose text is the button's data, `callback:<query>` |
| deleted_business_messages, reactions, changes of members | a message of that kind without a text |
| any other, also one without a chat | unknown: stored and parked under its sender, never lost |
| what this bot, or with `accept_bots=False` another bot, wrote | an echo: counted, not stored |
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final, TypedDict

import attrs

from ...actors.extensions import Extensions, Kind
from ...actors.instants import rfc3339_from_us
from ...actors.message import MAX_RAW_BYTES
from ...actors.plain import Plain
from ...actors.strict_json import write
from ..base import NO_ADDRESS, Inbound
from .address import Address, Lanes, message_name
from .calls import GENERAL_THREAD
from .fields import Object, as_object, integer_in, object_in, text_in
from .parts import attachments_of, entities_of, mentions_of

_SECOND_US: Final = 1_000_000
_NEW: Final = ("message", "channel_post", "business_message")
_EDITED: Final = ("edited_message", "edited_channel_post", "edited_business_message")
_OTHERS: Final = {
    "deleted_business_messages": Kind.DELETE,
    "message_reaction": Kind.REACTION,
    "message_reaction_count": Kind.REACTION,
    "my_chat_member": Kind.MEMBER,
    "chat_member": Kind.MEMBER,
    "chat_join_request": Kind.MEMBER,
}
ALLOWED_UPDATES: Final = (
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "business_message",
    "edited_business_message",
    "deleted_business_messages",
    "callback_query",
)
"""What is asked for by default."""


@attrs.frozen(kw_only=True)
class Me:
    """The bot itself, as `getMe` tells.

    Attributes:
        id: Its user id.
        username: Without the @.
    """

    id: int
    username: str | None = None


@attrs.frozen(kw_only=True)
class Echo:
    """A message of a bot, this one or another: not to be answered."""

    update_id: int
    is_own: bool


@attrs.frozen(kw_only=True)
class Reading:
    """How updates are read.

    Attributes:
        me: Whose updates they are.
        lanes: What one conversation is.
        accepts_bots: Messages of other bots count.
    """

    me: Me
    lanes: Lanes = "topic"
    accepts_bots: bool = False


def read_update(update: Object, how: Reading) -> Inbound | Echo | None:
    """Read one update.

    Args:
        update: As it came, parsed.
        how: How to.
    Returns:
        None where it has no `update_id`: it is no update.
    """
    update_id = integer_in(update, "update_id")
    if update_id is None:
        return None
    raw = _raw(update)
    for name in _NEW:
        message = object_in(update, name)
        if message is not None:
            return _message(message, update_id, how, raw, is_edit=False)
    for name in _EDITED:
        message = object_in(update, name)
        if message is not None:
            return _message(message, update_id, how, raw, is_edit=True)
    query = object_in(update, "callback_query")
    if query is not None:
        return _callback(query, update_id, how, raw)
    for name, kind in _OTHERS.items():
        told = object_in(update, name)
        if told is not None:
            return _other(told, kind, update_id, how, raw)
    return _unknown(update, update_id, raw)


def _message(
    message: Object, update_id: int, how: Reading, raw: bytes, *, is_edit: bool
) -> Inbound | Echo | None:
    address, number = _address(message, how), integer_in(message, "message_id")
    if address is None or number is None:
        return _unknown({"message": dict(message)}, update_id, raw)
    author = object_in(message, "from") or {}
    if _is_echo(message, author, how):
        return Echo(update_id=update_id, is_own=_is_own(message, author, how.me))
    sender = integer_in(author, "id") or integer_in(object_in(message, "sender_chat") or {}, "id")
    text = text_in(message, "text") or text_in(message, "caption") or ""
    attachments = attachments_of(message)
    entities = entities_of(message)
    edited_s = integer_in(message, "edit_date")
    kind = Kind.EDIT if is_edit else Kind.NEW
    if not text.strip() and not attachments:
        kind = Kind.SERVICE
    name = message_name(address, number)
    identity = f"{name}:edit:{update_id}" if is_edit else name
    reply_to = _reply_to(message, address)
    moved_to, moved_from = (
        integer_in(message, "migrate_to_chat_id"),
        integer_in(message, "migrate_from_chat_id"),
    )
    return Inbound(
        platform_message_id=identity,
        address=str(address),
        text=text,
        sender=None if sender is None else str(sender),
        sent_at=_moment(edited_s if is_edit and edited_s is not None else integer_in(message, "date")),
        reply_to=reply_to,
        extensions=Extensions(
            platform_message_id=identity,
            reply_to=reply_to,
            chat_type=text_in(object_in(message, "chat") or {}, "type"),
            channel_id=str(address.chat),
            kind=kind,
            attachments=attachments,
            media_group_id=text_in(message, "media_group_id"),
            edited_at_us=None if edited_s is None else edited_s * _SECOND_US,
            entities=entities,
            mention_users=mentions_of(text, entities, how.me.id, how.me.username),
            business_connection_id=text_in(message, "business_connection_id"),
            thread_ts=_topic_of(address),
            **_author(author, sender),
        ),
        raw=raw,
        moved_to=None if moved_to is None else str(attrs.evolve(address, chat=moved_to)),
        moved_from=None if moved_from is None else str(attrs.evolve(address, chat=moved_from)),
    )


def _callback(query: Object, update_id: int, how: Reading, raw: bytes) -> Inbound | Echo | None:
    author = object_in(query, "from") or {}
    sender, identity = integer_in(author, "id"), text_in(query, "id")
    message = object_in(query, "message") or {}
    address = _address(message, how) or (None if sender is None else Address(sender))
    if address is None or identity is None:
        return _unknown({"callback_query": dict(query)}, update_id, raw)
    number = integer_in(message, "message_id")
    data = text_in(query, "data")
    reply_to = None if number is None else message_name(address, number)
    return Inbound(
        platform_message_id=f"callback:{identity}",
        address=str(address),
        text=data or "",
        sender=None if sender is None else str(sender),
        reply_to=reply_to,
        extensions=Extensions(
            platform_message_id=f"callback:{identity}",
            reply_to=reply_to,
            chat_type=text_in(object_in(message, "chat") or {}, "type"),
            channel_id=str(address.chat),
            kind=Kind.CALLBACK,
            event_id=identity,
            callback_data=data,
            **_author(author, sender),
        ),
        raw=raw,
    )


def _other(told: Object, kind: Kind, update_id: int, how: Reading, raw: bytes) -> Inbound | Echo | None:
    author = object_in(told, "from") or object_in(told, "user") or {}
    sender = integer_in(author, "id")
    address = _address(told, how)
    if address is None:
        return _unknown({"told": dict(told)}, update_id, raw)
    if sender == how.me.id and kind is not Kind.MEMBER:
        return Echo(update_id=update_id, is_own=True)
    number = integer_in(told, "message_id")
    identity = f"update:{update_id}:{integer_in(told, 'date') or 0}"
    return Inbound(
        platform_message_id=identity,
        address=str(address),
        text="",
        sender=None if sender is None else str(sender),
        sent_at=_moment(integer_in(told, "date")),
        extensions=Extensions(
            platform_message_id=identity,
            reply_to=None if number is None else message_name(address, number),
            chat_type=text_in(object_in(told, "chat") or {}, "type"),
            channel_id=str(address.chat),
            kind=kind,
            business_connection_id=text_in(told, "business_connection_id"),
            **_author(author, sender),
        ),
        raw=raw,
    )


def _unknown(update: Object, update_id: int, raw: bytes) -> Inbound:
    """What there are no words for, under its sender where it names one.

    Update ids may begin anew after a quiet week, so its own id, or its text, is part of its identity.
    """
    bodies = (as_object(value) for value in update.values())
    found = next((body for body in bodies if body is not None), None)
    body: Object = dict[str, Plain]() if found is None else found
    sender = integer_in(object_in(body, "from") or object_in(body, "user") or {}, "id")
    own = text_in(body, "id") or text_in(body, "poll_id") or _fingerprint(raw)
    return Inbound.unknown(
        platform_message_id=f"update:{update_id}:{own}"[:200],
        raw=raw,
        address=NO_ADDRESS if sender is None else str(sender),
        sender=None if sender is None else str(sender),
        sent_at=_moment(integer_in(body, "date")),
    )


def _address(message: Object, how: Reading) -> Address | None:
    chat = integer_in(object_in(message, "chat") or {}, "id")
    if not chat:
        return None
    connection = text_in(message, "business_connection_id")
    if connection is not None:
        return Address(chat, connection=connection)
    direct = integer_in(object_in(message, "direct_messages_topic") or {}, "topic_id")
    if direct is not None and direct > 0:
        # Each is another person, and without it no answer is taken: so whatever the lanes are.
        return Address(chat, direct=direct)
    if how.lanes == "topic" and message.get("is_topic_message") is True:
        thread = integer_in(message, "message_thread_id")
        if thread is not None and thread > GENERAL_THREAD:
            return Address(chat, thread)
    return Address(chat)


def _topic_of(address: Address) -> str | None:
    topic = address.thread if address.direct is None else address.direct
    return None if topic is None else str(topic)


def _is_echo(message: Object, author: Object, how: Reading) -> bool:
    if _is_own(message, author, how.me):
        return True
    # An anonymous admin and a linked channel speak through bots of the platform's own.
    is_bot = author.get("is_bot") is True and object_in(message, "sender_chat") is None
    return is_bot and not how.accepts_bots


def _is_own(message: Object, author: Object, me: Me) -> bool:
    through = object_in(message, "sender_business_bot") or {}
    return me.id in {integer_in(author, "id"), integer_in(through, "id")}


def _reply_to(message: Object, address: Address) -> str | None:
    number = integer_in(object_in(message, "reply_to_message") or {}, "message_id")
    # In a forum every message is a reply to the one that made its topic.
    if number is None or number == integer_in(message, "message_thread_id"):
        return None
    return message_name(address, number)


class _Author(TypedDict):
    """The fields of the extensions that tell who speaks."""

    from_user_id: str | None
    from_username: str | None
    from_first_name: str | None
    from_last_name: str | None
    from_display_name: str | None


def _author(author: Object, sender: int | None) -> _Author:
    first, last = text_in(author, "first_name"), text_in(author, "last_name")
    return _Author(
        from_user_id=None if sender is None else str(sender),
        from_username=text_in(author, "username"),
        from_first_name=first,
        from_last_name=last,
        from_display_name=" ".join(name for name in (first, last) if name) or None,
    )


def _moment(seconds: int | None) -> str | None:
    # Zero is what an inaccessible message has; what no calendar holds is left out.
    return rfc3339_from_us(seconds * _SECOND_US) if seconds and 0 < seconds < 1 << 36 else None


def _raw(update: Object) -> bytes:
    # It came out of `loads`, so it can be written.
    return write(update).encode()[:MAX_RAW_BYTES]


def _fingerprint(raw: bytes) -> str:
    return sha256(raw).hexdigest()[:12]


__all__ = ["ALLOWED_UPDATES", "Echo", "Me", "Reading", "read_update"]
