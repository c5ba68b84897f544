"""Extensions as a map and back: one form for stored records and the wire, apart from the time of an edit."""

from itertools import compress, repeat
from operator import attrgetter, is_not

from .errors import BusError, Code
from .extensions import EMPTY, Attachment, Entity, Extensions, Kind
from .plain import Plain
from .record import check_keys, optional_count, optional_list, optional_text, required_count, required_text

__all__ = ["extensions_from_record", "extensions_to_record"]

_TEXTS = (
    "platform_message_id",
    "reply_to",
    "session_id",
    "chat_type",
    "from_user_id",
    "from_username",
    "from_first_name",
    "from_last_name",
    "from_display_name",
    "team_id",
    "channel_id",
    "from_user_ref",
    "thread_ts",
    "event_id",
    "callback_data",
    "media_group_id",
    "business_connection_id",
)
_GET_TEXTS = attrgetter(*_TEXTS)
_KEYS = frozenset({*_TEXTS, "mention_users", "kind", "attachments", "edited_at_us", "entities"})
_ATTACHMENT_KEYS = frozenset({"kind", "ref", "name", "mime_type", "size_bytes"})
_ENTITY_KEYS = frozenset({"kind", "offset_utf16", "length_utf16", "url", "user_id"})


def extensions_to_record(extensions: Extensions) -> dict[str, Plain]:
    """Make a map of full field names; None, empty and the default kind are left out."""
    texts: tuple[str | None, ...] = _GET_TEXTS(extensions)
    # Most of them are None in every message: no step of the interpreter for each.
    given = map(is_not, texts, repeat(None))
    record: dict[str, Plain] = dict(compress(zip(_TEXTS, texts, strict=True), given))
    if extensions.kind is not Kind.NEW:
        record["kind"] = extensions.kind.value
    if extensions.mention_users:
        record["mention_users"] = list(extensions.mention_users)
    if extensions.attachments:
        record["attachments"] = [_attachment_record(attachment) for attachment in extensions.attachments]
    if extensions.edited_at_us is not None:
        record["edited_at_us"] = extensions.edited_at_us
    if extensions.entities:
        record["entities"] = [_entity_record(entity) for entity in extensions.entities]
    return record


def extensions_from_record(record: dict[str, Plain], *, strict: bool) -> Extensions:
    """Read a map.

    Args:
        record: As `extensions_to_record` makes it.
        strict: Refuse unknown keys, kinds and null (wire); else ignore the keys and read a foreign kind as UNKNOWN
            (stored records, perhaps of a newer version).
    Raises:
        BusError: INVALID_MESSAGE, a field has another type, or a strict rule is broken.
    """
    if strict:
        check_keys(record, _KEYS, "extensions")
    if not record:
        return EMPTY
    return Extensions(
        platform_message_id=optional_text(record, "platform_message_id"),
        reply_to=optional_text(record, "reply_to"),
        session_id=optional_text(record, "session_id"),
        chat_type=optional_text(record, "chat_type"),
        from_user_id=optional_text(record, "from_user_id"),
        from_username=optional_text(record, "from_username"),
        from_first_name=optional_text(record, "from_first_name"),
        from_last_name=optional_text(record, "from_last_name"),
        from_display_name=optional_text(record, "from_display_name"),
        team_id=optional_text(record, "team_id"),
        channel_id=optional_text(record, "channel_id"),
        from_user_ref=optional_text(record, "from_user_ref"),
        thread_ts=optional_text(record, "thread_ts"),
        event_id=optional_text(record, "event_id"),
        mention_users=tuple(_user(item) for item in optional_list(record, "mention_users")),
        kind=_kind(optional_text(record, "kind"), strict=strict),
        attachments=tuple(_attachment(item, strict=strict) for item in optional_list(record, "attachments")),
        callback_data=optional_text(record, "callback_data"),
        media_group_id=optional_text(record, "media_group_id"),
        edited_at_us=optional_count(record, "edited_at_us"),
        entities=tuple(_entity(item, strict=strict) for item in optional_list(record, "entities")),
        business_connection_id=optional_text(record, "business_connection_id"),
    )


def _attachment_record(attachment: Attachment) -> dict[str, Plain]:
    record: dict[str, Plain] = {"kind": attachment.kind, "ref": attachment.ref}
    if attachment.name is not None:
        record["name"] = attachment.name
    if attachment.mime_type is not None:
        record["mime_type"] = attachment.mime_type
    if attachment.size_bytes is not None:
        record["size_bytes"] = attachment.size_bytes
    return record


def _attachment(item: Plain, *, strict: bool) -> Attachment:
    record = _map(item, "attachments", _ATTACHMENT_KEYS, strict=strict)
    return Attachment(
        kind=required_text(record, "kind"),
        ref=required_text(record, "ref"),
        name=optional_text(record, "name"),
        mime_type=optional_text(record, "mime_type"),
        size_bytes=optional_count(record, "size_bytes"),
    )


def _entity_record(entity: Entity) -> dict[str, Plain]:
    record: dict[str, Plain] = {
        "kind": entity.kind,
        "offset_utf16": entity.offset_utf16,
        "length_utf16": entity.length_utf16,
    }
    if entity.url is not None:
        record["url"] = entity.url
    if entity.user_id is not None:
        record["user_id"] = entity.user_id
    return record


def _entity(item: Plain, *, strict: bool) -> Entity:
    record = _map(item, "entities", _ENTITY_KEYS, strict=strict)
    return Entity(
        kind=required_text(record, "kind"),
        offset_utf16=required_count(record, "offset_utf16"),
        length_utf16=required_count(record, "length_utf16"),
        url=optional_text(record, "url"),
        user_id=optional_text(record, "user_id"),
    )


def _map(item: Plain, name: str, known: frozenset[str], *, strict: bool) -> dict[str, Plain]:
    if not isinstance(item, dict):
        raise BusError(Code.INVALID_MESSAGE, f"{name} must hold maps", field=name)
    if strict:
        check_keys(item, known, name)
    return item


def _user(item: Plain) -> str:
    if not isinstance(item, str):
        raise BusError(Code.INVALID_MESSAGE, "mention_users must hold texts", field="mention_users")
    return item


def _kind(value: str | None, *, strict: bool) -> Kind:
    if value is None:
        return Kind.NEW
    try:
        return Kind(value)
    except ValueError as error:
        if strict:
            raise BusError(Code.INVALID_MESSAGE, f"unknown kind {value[:80]!r}", field="kind") from error
        return Kind.UNKNOWN
