"""What a handler may hand to its context: checked at the call, so that the wrong line is the one that raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from ..actors.codec import copy_plain
from ..actors.errors import BusError, Code
from ..actors.event import check_headers
from ..actors.given import shown
from ..actors.names import canonical
from ..actors.plain import Plain
from ..actors.text import has_lone_surrogate
from ..storage.records import OnUncertain
from .defaults import PAYLOAD_BYTES
from .effects import EventEffect

_POLICIES: Final[Mapping[str, OnUncertain]] = {str(policy): policy for policy in OnUncertain}


def check_text(text: object, name: str = "") -> None:
    """Refuse what no chat shows, or no row can hold.

    Args:
        text: To be sent.
        name: The key that it is stored under.
    Raises:
        BusError: INVALID_MESSAGE, TOO_LARGE.
    """
    if not isinstance(text, str) or not text.strip():
        raise BusError(Code.INVALID_MESSAGE, "a text to send needs at least one visible character")
    if has_lone_surrogate(text):
        raise BusError(Code.INVALID_MESSAGE, "a text to send must not hold lone surrogates")
    # Four bytes a character at most, so only long texts are encoded to be counted.
    if (len(text) + len(name)) * 4 > PAYLOAD_BYTES and len((text + name).encode()) > PAYLOAD_BYTES:
        raise BusError(
            Code.TOO_LARGE, f"a text to send has at most {PAYLOAD_BYTES} bytes", limit=PAYLOAD_BYTES
        )


def checked_headers(given: object) -> dict[str, str]:
    """The headers of an event, as a copy.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    if given is not None and not isinstance(given, Mapping):
        raise BusError(Code.INVALID_MESSAGE, "headers must be a map", field="headers")
    headers = dict(cast("Mapping[str, str]", given or {}))
    check_headers(headers)
    return headers


def checked_event(
    topic: str, payload: Plain, key: str | None, headers: dict[str, str] | None, idem_key: str | None
) -> EventEffect:
    """An event as it is now: what the handler does to its values afterwards is not what it published.

    Raises:
        BusError: INVALID_MESSAGE, TOO_LARGE.
    """
    if key is not None:
        canonical(key, "key")
    if idem_key is not None:
        canonical(idem_key, "idem_key")
    copied = copy_plain(payload, limit_bytes=PAYLOAD_BYTES, what="payload")
    return EventEffect(topic, copied, key, checked_headers(headers), idem_key)


def checked_policy(value: object) -> OnUncertain | None:
    """What becomes of a send whose result nobody knows.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    if value is None:
        return None
    policy = _POLICIES.get(value) if isinstance(value, str) else None
    if policy is None:
        raise BusError(Code.INVALID_MESSAGE, f"on_uncertain is one of park, resend, drop, not {shown(value)}")
    return policy


__all__ = ["check_text", "checked_event", "checked_headers", "checked_policy"]
