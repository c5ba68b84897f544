"""What a send can be: a text, a medium, a change of an earlier send, an action. Frozen values, and as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeGuard, cast, get_args

import attrs

from .errors import BusError, Code
from .plain import Plain
from .record import optional_count, optional_map, optional_text, required_text

ContentKind = Literal["text", "media", "edit", "delete", "action"]
MediaKind = Literal["photo", "video", "animation", "audio", "voice", "document", "sticker"]

MEDIA_KINDS: Final[tuple[MediaKind, ...]] = get_args(MediaKind)
NO_DATA: Final[Mapping[str, Plain]] = {}


@attrs.frozen
class SendRef:
    """Names a send: by its channel and idempotency key (and part, for a split text: 1,000 for the second, and so on).

    What `ctx.reply`, `ctx.send` and `ctx.send_now` return.
    """

    channel: str
    idempotency_key: str
    part: int = 0


@attrs.frozen
class Text:
    """A text; the same as the plain string."""

    text: str


@attrs.frozen
class Media:
    """A picture, a sound, a file.

    Attributes:
        kind: What the channel shows it as.
        file_id: What the platform calls a file that it has already.
        path: A file of this machine, sent as it is when the send starts. One of the two is given.
        caption: A text with it; it is not cut.
        name: What the receiver sees as the file's name.
    """

    kind: MediaKind
    file_id: str | None = attrs.field(default=None, kw_only=True)
    path: str | None = attrs.field(default=None, kw_only=True)
    caption: str = attrs.field(default="", kw_only=True)
    name: str | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class Edit:
    """Another text for an earlier send of the same conversation; it is not cut."""

    ref: SendRef
    text: str


@attrs.frozen
class Delete:
    """Take an earlier send of the same conversation away. Of a text in several parts it names one."""

    ref: SendRef


@attrs.frozen(hash=False)
class Action:
    """Something that the channel does and that is no message: a pin, an answer to a button; `typing` as `ephemeral`.

    Attributes:
        name: The channel's word for it.
        data: What it needs, plain values; answers to buttons carry their id here.
    """

    name: str
    data: Mapping[str, Plain] = NO_DATA


Content = Text | Media | Edit | Delete | Action
Rich = Media | Edit | Delete | Action
"""All but texts."""

KINDS: Final[Mapping[type[Content], ContentKind]] = {
    Text: "text",
    Media: "media",
    Edit: "edit",
    Delete: "delete",
    Action: "action",
}


def ref_of(content: Content | None) -> SendRef | None:
    """The earlier send that a content is about."""
    return content.ref if isinstance(content, (Edit, Delete)) else None


def rich_to_record(content: Rich) -> dict[str, Plain]:
    """As plain values, without the text, which has its own place."""
    record: dict[str, Plain] = {"kind": KINDS[type(content)]}
    match content:
        case Media():
            optional = {"file_id": content.file_id, "path": content.path, "name": content.name}
            record |= {"media": content.kind} | {k: v for k, v in optional.items() if v is not None}
        case Action():
            record["name"] = content.name
            if content.data:
                record["data"] = dict(content.data)
        case Edit(ref=ref) | Delete(ref=ref):
            record |= {"channel": ref.channel, "key": ref.idempotency_key, "part": ref.part}
    return record


def rich_from_record(record: dict[str, Plain], text: str) -> Rich:
    """Read `rich_to_record`.

    Raises:
        BusError: INVALID_MESSAGE, an unknown kind or a missing field.
    """
    kind = required_text(record, "kind")
    match kind:
        case "media":
            return Media(
                cast("MediaKind", required_text(record, "media")),
                file_id=optional_text(record, "file_id"),
                path=optional_text(record, "path"),
                caption=text,
                name=optional_text(record, "name"),
            )
        case "action":
            return Action(required_text(record, "name"), optional_map(record, "data") or NO_DATA)
        case "edit":
            return Edit(_ref(record), text)
        case "delete":
            return Delete(_ref(record))
        case _:
            raise BusError(Code.INVALID_MESSAGE, f"there is no content {kind[:80]}", kind=kind[:80])


def is_content(value: object) -> TypeGuard[Content]:
    """Whether a value is a content at all."""
    return isinstance(value, (Text, Media, Edit, Delete, Action))


def _ref(record: dict[str, Plain]) -> SendRef:
    return SendRef(
        required_text(record, "channel"), required_text(record, "key"), optional_count(record, "part") or 0
    )
