"""Extensions: what channels tell about a message beyond its text, typed."""

from enum import StrEnum, unique

import attrs

__all__ = ["EMPTY", "Attachment", "Entity", "Extensions", "Kind"]


@unique
class Kind(StrEnum):
    """What happened on the platform."""

    NEW = "new"
    """A message was written."""
    EDIT = "edit"
    """A message was changed; it keeps its id on the platform and gets a revision of its own here."""
    DELETE = "delete"
    """A message was removed."""
    CALLBACK = "callback"
    """A button was pressed; see `callback_data`."""
    REACTION = "reaction"
    """A reaction was set or taken away."""
    MEMBER = "member"
    """Somebody joined, left, or got other rights."""
    SERVICE = "service"
    """The platform speaks: title changed, chat migrated, message pinned."""
    UNKNOWN = "unknown"
    """The adapter has no word for it."""


@attrs.frozen(kw_only=True)
class Attachment:
    """A file or other object that came with a message; a reference, never its bytes."""

    kind: str
    """The platform's word: photo, document, voice, sticker, location, …"""
    ref: str
    """How the platform finds it again: a file id or URL."""
    name: str | None = None
    mime_type: str | None = None
    size_bytes: int | None = None


@attrs.frozen(kw_only=True)
class Entity:
    """A stretch of the text with a meaning: a link, a mention, a command."""

    kind: str
    offset_utf16: int
    """Start, UTF-16 code units."""
    length_utf16: int
    """Length, UTF-16 code units, > 0."""
    url: str | None = None
    user_id: str | None = None


# Without slots, so that it can be made out of EMPTY: 22 frozen fields set one by one cost ten times as much.
@attrs.frozen(kw_only=True, slots=False)
class Extensions:
    """What the channel told; every field is optional, platform ids are text."""

    platform_message_id: str | None = None
    """Unique inside the channel, dedupe key of inbound messages, such as `<chat>:<message>`."""
    reply_to: str | None = None
    """Platform id of the message that this one answers."""
    session_id: str | None = None
    """The session as the peer named it, UUIDv7."""
    chat_type: str | None = None
    from_user_id: str | None = None
    from_username: str | None = None
    from_first_name: str | None = None
    from_last_name: str | None = None
    from_display_name: str | None = None
    team_id: str | None = None
    channel_id: str | None = None
    from_user_ref: str | None = None
    """How to name the sender in a text of this channel."""
    thread_ts: str | None = None
    """Slack's thread, decimal text."""
    event_id: str | None = None
    mention_users: tuple[str, ...] = ()
    """Platform ids of mentioned users."""
    kind: Kind = Kind.NEW
    attachments: tuple[Attachment, ...] = ()
    callback_data: str | None = None
    media_group_id: str | None = None
    """Shared by the parts of an album."""
    edited_at_us: int | None = None
    """The platform's time of the edit, microseconds since 1970 UTC."""
    entities: tuple[Entity, ...] = ()
    business_connection_id: str | None = None


EMPTY = Extensions()
"""No extensions: a new message with nothing but its text."""
