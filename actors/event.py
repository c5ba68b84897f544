"""The event: a value in the log of an event topic, read by groups."""

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType

import attrs

from .errors import BusError, Code
from .given import is_number, shown
from .identifiers import check_uuid_form
from .instants import MAX_AT_US
from .names import canonical, check_topic
from .plain import Plain, check_plain
from .strict_json import dumps

__all__ = ["Event", "check_headers", "hash_payload", "validate_event"]

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_MAX_HEADERS = 64


@attrs.frozen(kw_only=True)
class Event:
    """Something that happened, on an event topic. Built unchecked: `validate_event` holds the rules."""

    id: str
    ts_us: int
    """When it was published, microseconds since 1970 UTC; the log may raise it to keep its order."""
    topic: str
    key: str | None = None
    """Events of one key keep their order; None: any partition."""
    headers: Mapping[str, str] = _NO_HEADERS
    payload: Plain = None
    payload_sha256: str | None = None
    """`hash_payload(payload)` as the sender knows it; a wrong one is refused."""
    space_id: str | None = None
    """The space whose members may see it."""
    type: str | None = None
    actor: str | None = None
    """Who caused it."""
    trace_id: str | None = None
    idem_key: str | None = None
    """A repeat with the same key on the same topic is stored once."""
    ttl_s: float | None = None
    """Seconds from acceptance after which it expires, > 0."""
    hops: int = 0
    """Length of the chain of causes."""


def hash_payload(payload: Plain) -> str:
    """Hash a payload: SHA-256, 64 lower-case hex digits.

    Of bytes it is taken as they are, of text as UTF-8, of all else as compact JSON with sorted keys.

    Raises:
        BusError: INVALID_MESSAGE, the payload holds bytes inside, or is not plain.
    """
    match payload:
        case bytes():
            data = payload
        case str():
            check_plain(payload)
            data = payload.encode()
        case _:
            data = dumps(payload, sort_keys=True).encode()
    return sha256(data).hexdigest()


def validate_event(event: Event, *, allow_system: bool = False) -> None:
    """Check every rule of an event but its size, which packing checks.

    Args:
        event: As it came.
        allow_system: The runtime's own events may go to `system.*`.
    Raises:
        BusError: INVALID_TOPIC, else INVALID_MESSAGE.
    """
    check_topic(event.topic, allow_system=allow_system)
    check_uuid_form(canonical(event.id, "id"), "id")
    for value, what in (
        (event.key, "key"),
        (event.space_id, "space_id"),
        (event.type, "type"),
        (event.actor, "actor"),
        (event.trace_id, "trace_id"),
        (event.idem_key, "idem_key"),
    ):
        if value is not None:
            canonical(value, what)
    _check_integer(event.ts_us, "ts_us", MAX_AT_US)
    _check_integer(event.hops, "hops", 2**63 - 1)
    check_headers(event.headers)
    if event.ttl_s is not None and not _is_ttl(event.ttl_s):
        raise _refused("ttl_s", "must be a number of seconds, more than 0")
    check_plain(event.payload)
    if event.payload_sha256 is not None:
        _check_hash(event.payload, event.payload_sha256)


def check_headers(headers: Mapping[str, str]) -> None:
    """Check the names and values of an event's headers.

    Raises:
        BusError: INVALID_MESSAGE.
    """
    if not _is(headers, Mapping):
        raise _refused("headers", "must be a map")
    if len(headers) > _MAX_HEADERS:
        raise _refused("headers", f"has {len(headers)} entries, at most {_MAX_HEADERS}")
    for name, value in headers.items():
        canonical(name, "headers: a name")
        if not _is(value, str):
            raise _refused(f"headers.{shown(name)}", "must be text")
        check_plain(value, where=f"headers.{shown(name)}")


def _check_hash(payload: Plain, claimed: str) -> None:
    if hash_payload(payload) != claimed:
        raise _refused("payload_sha256", "is not the payload's hash, 64 lower-case hex digits")


def _check_integer(value: int, what: str, highest: int) -> None:
    if not _is(value, int) or _is(value, bool) or not 0 <= value <= highest:
        raise _refused(what, f"must be an integer, 0 to {highest}")


def _is_ttl(value: object) -> bool:
    return is_number(value) and value > 0


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind)


def _refused(what: str, reason: str) -> BusError:
    return BusError(Code.INVALID_MESSAGE, f"{what} {reason}", field=what)
