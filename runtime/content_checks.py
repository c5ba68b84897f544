"""What a handler may send to a channel: checked at the call."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import attrs

from ..actors.codec import copy_plain
from ..actors.content import (
    KINDS,
    MEDIA_KINDS,
    Action,
    Content,
    Delete,
    Edit,
    Media,
    Rich,
    SendRef,
    Text,
    is_content,
)
from ..actors.errors import BusError, Code
from ..actors.given import is_whole, shown
from ..actors.names import canonical
from ..actors.plain import Plain
from .context_checks import check_text
from .defaults import PAYLOAD_BYTES
from .split import length_of

if TYPE_CHECKING:
    from .channel import ChannelCaps


def checked_content(
    given: str | Content, name: str, channel: str, caps: ChannelCaps
) -> tuple[str, Rich | None]:
    """Read what is to be sent.

    Args:
        given: A text or a content.
        name: The key that it is stored under.
        channel: The channel it goes to.
        caps: Of that channel.
    Returns:
        Its text, and what it is if it is more than that.
    Raises:
        BusError: INVALID_MESSAGE, TOO_LARGE.
    """
    if isinstance(given, str) or not is_content(given):
        check_text(given, name)
        return cast("str", given), None
    if isinstance(given, Text):
        check_text(given.text, name)
        return given.text, None
    kind = KINDS[type(given)]
    if kind not in caps.contents:
        raise BusError(
            Code.INVALID_MESSAGE, f"channel {channel} takes no {kind}", channel=channel, content=kind
        )
    match given:
        case Media():
            return _checked_media(given, name, caps), given
        case Edit():
            _check_ref(given.ref, channel)
            check_text(given.text, name)
            return _fitting(given.text, caps), given
        case Delete():
            _check_ref(given.ref, channel)
            return "", given
        case Action():
            return "", checked_action(given)


def checked_action(action: object) -> Action:
    """An action as it is now: what becomes of its data afterwards is not in it.

    Raises:
        BusError: INVALID_MESSAGE, TOO_LARGE.
    """
    if not isinstance(action, Action):
        raise BusError(Code.INVALID_MESSAGE, "an Action is wanted", given=type(action).__name__)
    canonical(action.name, "action")
    copied = copy_plain(_data_of(action), limit_bytes=PAYLOAD_BYTES, what="data")
    return attrs.evolve(action, data=cast("dict[str, Plain]", copied))


def _data_of(action: Action) -> dict[str, Plain]:
    if not _is(action.data, Mapping):
        raise BusError(Code.INVALID_MESSAGE, f"data must be a map, not {shown(action.data)}", field="data")
    return dict(action.data)


def _is(value: object, kind: type) -> bool:
    # Through `object`: the fields are typed, yet handlers are not all checked for types.
    return isinstance(value, kind)


def _checked_media(media: Media, name: str, caps: ChannelCaps) -> str:
    if not _is(media.kind, str) or media.kind not in MEDIA_KINDS:
        raise BusError(
            Code.INVALID_MESSAGE, f"a medium is one of {', '.join(MEDIA_KINDS)}", given=shown(media.kind)
        )
    if (media.file_id is None) == (media.path is None):
        raise BusError(Code.INVALID_MESSAGE, "a medium has a file_id or a path")
    if media.file_id is not None:
        canonical(media.file_id, "file_id")
    if media.name is not None:
        canonical(media.name, "name")
    if media.path is not None:
        _check_file(media.path, caps)
    if not media.caption:
        return ""
    check_text(media.caption, name)
    return _fitting(media.caption, caps)


def _check_file(path: str, caps: ChannelCaps) -> None:
    canonical(path, "path")
    try:
        found = os.lstat(path)
    except (OSError, ValueError) as error:
        raise BusError(
            Code.INVALID_MESSAGE, f"the file cannot be read: {type(error).__name__}", path=path
        ) from error
    if not stat.S_ISREG(found.st_mode):
        raise BusError(Code.INVALID_MESSAGE, "a medium is a regular file: no link, no device", path=path)
    if found.st_size > caps.max_file_bytes:
        raise BusError(
            Code.TOO_LARGE,
            f"the file has {found.st_size} bytes, the channel takes {caps.max_file_bytes}",
            path=path,
            limit=caps.max_file_bytes,
        )


def _fitting(text: str, caps: ChannelCaps) -> str:
    if length_of(text, caps.unit) > caps.max_text:
        raise BusError(
            Code.TOO_LARGE,
            f"a caption or an edit is not cut: it has at most {caps.max_text} ({caps.unit})",
            limit=caps.max_text,
        )
    return text


def _check_ref(ref: object, channel: str) -> None:
    if not isinstance(ref, SendRef):
        raise BusError(Code.INVALID_MESSAGE, "a ref is what reply or send returned", given=type(ref).__name__)
    # A row of a change that names nothing could not be read back.
    canonical(ref.channel, "ref: channel")
    canonical(ref.idempotency_key, "ref: idempotency_key")
    if not is_whole(ref.part):
        raise BusError(
            Code.INVALID_MESSAGE, f"ref: part must be an integer >= 0, not {shown(ref.part)}", field="ref"
        )
    if ref.channel != channel:
        raise BusError(
            Code.INVALID_MESSAGE,
            f"the ref names a send of channel {ref.channel[:80]}, not of {channel}",
            channel=channel,
        )


__all__ = ["checked_action", "checked_content"]
