"""What a channel may claim: checked where its caps are made, so that no actor stumbles over them later."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, get_args

from ..actors.content import ContentKind
from ..actors.errors import BusError, Code
from ..actors.given import shown
from ..actors.names import check_topic
from ..storage.records import OnUncertain
from .argument_checks import check_kind, check_length, check_one_of, check_whole
from .rates import RateLimits

if TYPE_CHECKING:
    from .channel import ChannelCaps

_FLAGS: Final = ("deduplicates", "reconciles", "linear", "waits", "block_on_uncertain")
_COUNTS: Final[Mapping[str, int]] = {"max_text": 1, "concurrency": 1, "max_file_bytes": 0}


def check_caps(caps: ChannelCaps) -> None:
    """Refuse caps that no channel can have.

    Raises:
        BusError: INVALID_MESSAGE; INVALID_TOPIC.
    """
    for what in _FLAGS:
        check_kind(getattr(caps, what), bool, what, "True or False")
    for what, lowest in _COUNTS.items():
        check_whole(getattr(caps, what), what, lowest=lowest)
    if caps.send_timeout_s != math.inf:
        check_length(caps.send_timeout_s, "send_timeout_s")
    if caps.on_uncertain is not None:
        check_one_of(caps.on_uncertain, tuple(OnUncertain), "on_uncertain")
    check_one_of(caps.unit, ("codepoint", "utf16", "byte"), "unit")
    check_kind(caps.limits, RateLimits, "limits", "RateLimits")
    for topic in _items(caps.topics, "topics"):
        check_topic(topic)
    for kind in _items(caps.contents, "contents"):
        check_one_of(kind, get_args(ContentKind), "contents")
    for degradation in _items(caps.degradations, "degradations"):
        check_one_of(degradation, ("thread", "reply", "formatting"), "degradations")


def _items(value: object, what: str) -> tuple[str, ...]:
    # A list is taken too; a text would be taken for its letters.
    if not isinstance(value, tuple | list):
        raise BusError(
            Code.INVALID_MESSAGE, f"{what} must be a tuple of texts, not {shown(value)}", field=what
        )
    return tuple(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


__all__ = ["check_caps"]
