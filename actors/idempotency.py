"""Idempotency keys: a form that people can read, then a short hash of the raw parts that keeps them apart."""

import re
from hashlib import blake2b

from .errors import BusError, Code
from .names import canonical

__all__ = ["manual_contact_key", "message_envelope_key", "proactive_share_key", "turn_key"]

_UNREADABLE = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_PART_CHARS = 48


def manual_contact_key(contact_id: str, request_id: str) -> str:
    """Name a message that a person sends to a contact by hand.

    Args:
        contact_id: The contact.
        request_id: The person's request; its repeat has the same.
    Raises:
        BusError: IDEMPOTENCY_KEY_REQUIRED, a part is empty; INVALID_MESSAGE, not canonical.
    """
    return _key("manual", contact_id, request_id)


def proactive_share_key(contact_id: str, item_id: str) -> str:
    """Name the unasked sharing of an item with a contact: it happens once.

    Raises:
        BusError: IDEMPOTENCY_KEY_REQUIRED, a part is empty; INVALID_MESSAGE, not canonical.
    """
    return _key("share", contact_id, item_id)


def message_envelope_key(message_id: str) -> str:
    """Name a message by its envelope's `message_id`.

    Raises:
        BusError: IDEMPOTENCY_KEY_REQUIRED, it is empty; INVALID_MESSAGE, not canonical.
    """
    return _key("envelope", message_id)


def turn_key(
    *, inbound_id: int, generation: int, verb: str, name: str, conversation_key: str, store_uuid: str = ""
) -> str:
    """Name what a turn sends; the same turn, run again, gives the same key.

    Args:
        inbound_id: The row that the turn handles.
        generation: Grows at a requeue: a person wants it sent again.
        verb: `reply`, `send`, `now`, `publish` or `step`: each a key space of its own.
        name: Unique in the turn under its verb: a number, or the user's word.
        conversation_key: The conversation that it goes to.
        store_uuid: The store; row ids start again in a new one, yet a peer may remember keys for days.
    Returns:
        `<inbound_id>.<generation>.<verb>.<name>.<hash>`, the hash of 16 hex digits over all six.
    """
    turn = f"{inbound_id}.{generation}.{verb}."
    # The length keeps the user's word apart from what follows it.
    raw = f"{store_uuid}\n{turn}{len(name)}.{name}\n{conversation_key}"
    digest = blake2b(raw.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{turn}{_shown(name)}.{digest}"


def _key(kind: str, *parts: str) -> str:
    for part in parts:
        if not part:
            raise BusError(Code.IDEMPOTENCY_KEY_REQUIRED, f"a {kind} key needs all its ids", kind=kind)
        canonical(part, f"{kind} id")
    # Each part behind its length: a separator inside one cannot shift the border to the next.
    raw = "".join(f"{len(part)}:{part}" for part in (kind, *parts)).encode()
    shown = ":".join(_shown(part) for part in parts)
    return f"{kind}:{shown}:{blake2b(raw, digest_size=10).hexdigest()}"


def _shown(part: str) -> str:
    return _UNREADABLE.sub("_", part)[:_MAX_PART_CHARS]
