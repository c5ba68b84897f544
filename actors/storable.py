"""Whether a message can be stored and read back: less than its rules, and what trusted code has to keep as well."""

from .codec import CODEC_VERSION, pack_message, unpack_message
from .envelope import MessageEnvelope
from .errors import BusError, Code
from .extensions import Extensions
from .keys import check_conversation_key
from .message import MAX_RAW_BYTES, BusMessage, Direction, is_plain

__all__ = ["check_storable"]


def check_storable(message: BusMessage) -> None:
    """Check that a message comes back from a store: each field has its type, each text can be encoded.

    A row that cannot be read would stand in the way of every later start. The rules of `validate_message` are not
    checked; a message that keeps them passes at little cost.

    Raises:
        BusError: INVALID_MESSAGE with the field's name; TOO_LARGE.
    """
    if is_plain(message):
        return
    for value, kind, field in (
        (message.direction, Direction, "direction"),
        (message.payload, MessageEnvelope, "payload"),
        (message.extensions, Extensions, "extensions"),
        (message.created_at_us, int, "created_at"),
        (message.hops, int, "hops"),
    ):
        if not _is(value, kind):
            raise BusError(Code.INVALID_MESSAGE, f"{field} must be {kind.__name__}", field=field)
    raw = message.raw
    if raw is not None and not _is(raw, bytes):
        raise BusError(Code.INVALID_MESSAGE, "raw must be bytes", field="raw")
    if raw is not None and len(raw) > MAX_RAW_BYTES:
        raise BusError(Code.TOO_LARGE, f"raw has {len(raw)} bytes, at most {MAX_RAW_BYTES}", field="raw")
    check_conversation_key(message.conversation_key)
    try:
        stored = pack_message(message)
    except (AttributeError, TypeError) as error:
        raise BusError(Code.INVALID_MESSAGE, f"the message cannot be stored: {error}") from error
    unpack_message(stored, CODEC_VERSION)


def _is(value: object, kind: type) -> bool:
    # Through `object`: the fields are typed, yet what a program really passes is checked once here.
    return isinstance(value, kind)
