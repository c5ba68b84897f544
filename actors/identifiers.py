"""Ids: UUIDs of version 7, new or derived."""

import re
from functools import lru_cache
from hashlib import blake2b

import uuid_utils

from .errors import BusError, Code

__all__ = ["check_uuid_form", "is_uuid7", "new_uuid7", "session_id_for"]

_UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_UUID_LIKE = re.compile(r"(?:urn:uuid:)?\{?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\}?", re.IGNORECASE)


def new_uuid7() -> str:
    """Make a new UUIDv7, 36 lower-case characters; later ones of a process sort later."""
    return str(uuid_utils.uuid7())


def is_uuid7(value: str) -> bool:
    """Whether a text is a UUID in the one form we take: 36 lower-case characters, version 7, RFC variant."""
    return _UUID7.fullmatch(value) is not None


def check_uuid_form(value: str, what: str) -> str:
    """Check that an id, if it is a UUID in any spelling, has the one form of `is_uuid7`.

    Two spellings of one UUID would be two ids. Other ids pass.

    Returns:
        `value`, unchanged.
    Raises:
        BusError: INVALID_MESSAGE.
    """
    if not is_uuid7(value) and _UUID_LIKE.fullmatch(value) is not None:
        raise BusError(
            Code.INVALID_MESSAGE,
            f"{what} {value[:80]!r} must be a UUIDv7 of 36 lower-case characters",
            field=what,
        )
    return value


# Bounded: a session id is derived again when needed, an idle conversation keeps none.
@lru_cache(maxsize=4_096)
def session_id_for(store_uuid: str, created_at_us: int, conversation_key: str) -> str:
    """Derive the session id of a conversation; it needs no row.

    Args:
        store_uuid: The store's own UUID.
        created_at_us: When the store was made, microseconds since 1970 UTC, 0 … 2⁴⁸ ms.
        conversation_key: A checked key.
    Returns:
        A valid UUIDv7: the store's creation in ms, then 74 bits of a hash of store and conversation.
    """
    # The store's UUID has a fixed length, so the two parts cannot run into each other.
    digest = blake2b(f"{store_uuid}\n{conversation_key}".encode(), digest_size=10, person=b"session").digest()
    bits = int.from_bytes(digest, "big") & ((1 << 74) - 1)
    stamp_ms = (created_at_us // 1000) & ((1 << 48) - 1)
    number = (stamp_ms << 80) | (0x7 << 76) | ((bits >> 62) << 64) | (0b10 << 62) | (bits & ((1 << 62) - 1))
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
