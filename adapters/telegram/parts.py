"""What a message holds beyond its text: files and other objects, entities, mentions. Pure."""

from __future__ import annotations

from typing import Final

from ...actors.extensions import Attachment, Entity
from ...actors.plain import Plain
from .fields import Object, as_object, integer_in, list_in, object_in, text_in

_FILES: Final = ("animation", "audio", "document", "sticker", "video", "video_note", "voice")
_OBJECTS: Final = {"contact": "phone_number", "poll": "id", "dice": "emoji", "game": "title"}


def attachments_of(message: Object) -> tuple[Attachment, ...]:
    """Files and other objects, as references; of a photo the largest size."""
    found: list[Attachment] = []
    sizes = [size for one in list_in(message, "photo") if (size := as_object(one)) is not None]
    if sizes:
        found += _file("photo", sizes[-1])
    for kind in _FILES:
        told = object_in(message, kind)
        # An animation stands there a second time as a document.
        if told is not None and not (kind == "document" and object_in(message, "animation") is not None):
            found += _file(kind, told)
    for kind, field in _OBJECTS.items():
        ref = text_in(object_in(message, kind) or {}, field)
        if ref is not None:
            found.append(Attachment(kind=kind, ref=ref))
    place = object_in(message, "venue") or message
    where = object_in(place, "location")
    if where is not None:
        found.append(
            Attachment(
                kind="location", ref=f"geo:{_degrees(where, 'latitude')},{_degrees(where, 'longitude')}"
            )
        )
    return tuple(found)


def entities_of(message: Object) -> tuple[Entity, ...]:
    """Entities of the text or the caption; offsets count UTF-16 units, as the platform does."""
    found: list[Entity] = []
    for one in list_in(message, "entities") or list_in(message, "caption_entities"):
        told = as_object(one)
        if told is None:
            continue
        kind, offset, length = text_in(told, "type"), integer_in(told, "offset"), integer_in(told, "length")
        if kind is None or offset is None or length is None or offset < 0 or length <= 0:
            continue
        user = integer_in(object_in(told, "user") or {}, "id")
        found.append(
            Entity(
                kind=kind,
                offset_utf16=offset,
                length_utf16=length,
                url=text_in(told, "url"),
                user_id=None if user is None else str(user),
            )
        )
    return tuple(found)


def mentions_of(text: str, entities: tuple[Entity, ...], me: int, username: str | None) -> tuple[str, ...]:
    """Ids of users that a text mentions: those it links, and the bot itself by its name."""
    found = [one.user_id for one in entities if one.user_id is not None]
    if username is not None:
        units = text.encode("utf-16-le", "surrogatepass")
        named = f"@{username}".casefold()
        for one in entities:
            if one.kind in {"mention", "bot_command"}:
                stretch = units[2 * one.offset_utf16 : 2 * (one.offset_utf16 + one.length_utf16)]
                if stretch.decode("utf-16-le", "replace").casefold().endswith(named):
                    found.append(str(me))
    return tuple(dict.fromkeys(found))


def _file(kind: str, told: Object) -> list[Attachment]:
    ref = text_in(told, "file_id")
    if ref is None:
        return []
    return [
        Attachment(
            kind=kind,
            ref=ref,
            name=text_in(told, "file_name"),
            mime_type=text_in(told, "mime_type"),
            size_bytes=_size(told.get("file_size")),
        )
    ]


def _degrees(where: Object, name: str) -> float:
    value = where.get(name)
    return value if isinstance(value, int | float) else 0.0


def _size(value: Plain) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


__all__ = ["attachments_of", "entities_of", "mentions_of"]
