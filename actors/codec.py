"""Stored bytes: msgpack, packed after one walk, unpacked strictly with limits, with a codec version."""

from typing import Final

import msgpack

from .envelope import MessageEnvelope
from .errors import BusError, Code
from .event import Event
from .extension_record import extensions_from_record, extensions_to_record
from .extensions import EMPTY
from .message import MAX_MESSAGE_BYTES, BusMessage, Direction
from .plain import Plain, check_plain, is_flat
from .record import optional_count, optional_map, optional_text, required_count, required_text

__all__ = [
    "CODEC_VERSION",
    "MAX_RECORD_BYTES",
    "copy_plain",
    "pack_event",
    "pack_message",
    "pack_plain",
    "unpack_event",
    "unpack_message",
    "unpack_plain",
]

CODEC_VERSION: Final = 1
"""Written beside each stored record; a higher one is refused."""

MAX_RECORD_BYTES: Final = 2 * MAX_MESSAGE_BYTES
"""A packed message or event with all its names and keys."""


def pack_plain(value: object, *, limit_bytes: int, what: str) -> bytes:
    """Check and pack a payload, a state or a step's result.

    Args:
        value: A `Plain` value.
        limit_bytes: Of the packed form.
        what: For the error: `payload`, `state`, …
    Raises:
        BusError: INVALID_MESSAGE with the path, or TOO_LARGE.
    """
    if not is_flat(value):
        check_plain(value)
    try:
        packed = msgpack.packb(value)
    except (UnicodeEncodeError, OverflowError):
        # What is flat was not walked; the walk names the path.
        check_plain(value)
        raise
    return _limited(packed, limit_bytes, what)


def unpack_plain(data: bytes, *, limit_bytes: int) -> Plain:
    """Unpack one value, strictly: all of `data`, no extension types, text keys, finite numbers, limited depth.

    Raises:
        BusError: TOO_LARGE, or INVALID_MESSAGE for anything that `pack_plain` cannot have made.
    """
    value = _unpacked(data, limit_bytes)
    if not is_flat(value):
        check_plain(value)
    return value


def copy_plain(value: Plain, *, limit_bytes: int, what: str) -> Plain:
    """A checked copy that shares nothing with `value`; arguments and errors as of `pack_plain`."""
    return unpack_plain(pack_plain(value, limit_bytes=limit_bytes, what=what), limit_bytes=limit_bytes)


def pack_message(message: BusMessage) -> bytes:
    """Pack a checked message without `raw`, which has a column of its own.

    Raises:
        BusError: INVALID_MESSAGE, a text holds a lone surrogate; TOO_LARGE.
    """
    payload = message.payload
    said: dict[str, Plain] = {
        "message_id": payload.message_id,
        "text": payload.text,
        "sent_at": payload.sent_at,
    }
    if payload.session_id is not None:
        said["session_id"] = payload.session_id
    if payload.reply_to is not None:
        said["reply_to"] = payload.reply_to
    record: dict[str, Plain] = {
        "id": message.id,
        "direction": message.direction,
        "topic": message.topic,
        "conversation_key": message.conversation_key,
        "idempotency_key": message.idempotency_key,
        "correlation_id": message.correlation_id,
        "payload": said,
        "created_at_us": message.created_at_us,
        "channel": message.channel,
        "participant_key": message.participant_key,
    }
    # Nearly every message has both.
    if message.channel is None:
        del record["channel"]
    if message.participant_key is None:
        del record["participant_key"]
    if message.causation_id is not None:
        record["causation_id"] = message.causation_id
    if message.hops:
        record["hops"] = message.hops
    if message.extensions is not EMPTY:
        extensions = extensions_to_record(message.extensions)
        if extensions:
            record["extensions"] = extensions
    return _packed(record, "message")


def unpack_message(data: bytes, version: int, *, raw: bytes | None = None) -> BusMessage:
    """Read a stored message; unknown keys are ignored.

    Args:
        data: From `pack_message`.
        version: The codec version stored beside it.
        raw: The update's bytes from their own column.
    Raises:
        BusError: SCHEMA_TOO_NEW, unknown version; INVALID_MESSAGE, damaged bytes.
    """
    record = _record(data, version, "message")
    said = optional_map(record, "payload")
    extensions = optional_map(record, "extensions")
    return BusMessage(
        id=required_text(record, "id"),
        direction=_direction(required_text(record, "direction")),
        channel=optional_text(record, "channel"),
        topic=required_text(record, "topic"),
        conversation_key=required_text(record, "conversation_key"),
        participant_key=optional_text(record, "participant_key"),
        idempotency_key=required_text(record, "idempotency_key"),
        correlation_id=required_text(record, "correlation_id"),
        causation_id=optional_text(record, "causation_id"),
        payload=MessageEnvelope(
            message_id=required_text(said, "message_id"),
            text=required_text(said, "text"),
            sent_at=required_text(said, "sent_at"),
            session_id=optional_text(said, "session_id"),
            reply_to=optional_text(said, "reply_to"),
        ),
        created_at_us=required_count(record, "created_at_us"),
        hops=optional_count(record, "hops") or 0,
        extensions=extensions_from_record(extensions, strict=False) if extensions else EMPTY,
        raw=raw,
    )


def pack_event(event: Event) -> bytes:
    """Pack a checked event.

    Raises:
        BusError: INVALID_MESSAGE, a value is not plain; TOO_LARGE, the payload has more than 1 MiB packed.
    """
    payload = pack_plain(event.payload, limit_bytes=MAX_MESSAGE_BYTES, what="payload")
    record: dict[str, Plain] = {
        "id": event.id,
        "ts_us": event.ts_us,
        "topic": event.topic,
        "payload": payload,
    }
    optional: dict[str, Plain] = {
        "key": event.key,
        "payload_sha256": event.payload_sha256,
        "space_id": event.space_id,
        "type": event.type,
        "actor": event.actor,
        "trace_id": event.trace_id,
        "idem_key": event.idem_key,
        "ttl_s": event.ttl_s,
    }
    record.update({name: value for name, value in optional.items() if value is not None})
    if event.headers:
        record["headers"] = dict(event.headers)
    if event.hops:
        record["hops"] = event.hops
    return _packed(record, "event")


def unpack_event(data: bytes, version: int) -> Event:
    """Read a stored event; unknown keys are ignored.

    Raises:
        BusError: SCHEMA_TOO_NEW, unknown version; INVALID_MESSAGE, damaged bytes.
    """
    record = _record(data, version, "event")
    payload = record.get("payload")
    if not isinstance(payload, bytes):
        raise BusError(Code.INVALID_MESSAGE, "the stored event is damaged: payload must be bytes")
    headers = optional_map(record, "headers")
    ttl_s = record.get("ttl_s")
    if ttl_s is not None and (not isinstance(ttl_s, int | float) or isinstance(ttl_s, bool)):
        raise BusError(Code.INVALID_MESSAGE, "the stored event is damaged: ttl_s must be a number")
    return Event(
        id=required_text(record, "id"),
        ts_us=required_count(record, "ts_us"),
        topic=required_text(record, "topic"),
        key=optional_text(record, "key"),
        headers={name: required_text(headers, name) for name in headers},
        payload=unpack_plain(payload, limit_bytes=MAX_MESSAGE_BYTES),
        payload_sha256=optional_text(record, "payload_sha256"),
        space_id=optional_text(record, "space_id"),
        type=optional_text(record, "type"),
        actor=optional_text(record, "actor"),
        trace_id=optional_text(record, "trace_id"),
        idem_key=optional_text(record, "idem_key"),
        ttl_s=ttl_s,
        hops=optional_count(record, "hops") or 0,
    )


def _packed(record: dict[str, Plain], what: str) -> bytes:
    try:
        data = msgpack.packb(record)
    except (ValueError, OverflowError) as error:
        # A lone surrogate, a list in a list past msgpack's own depth; an integer past 64 bits.
        raise BusError(Code.INVALID_MESSAGE, f"the {what} cannot be stored: {error}") from error
    return data if len(data) <= MAX_RECORD_BYTES else _limited(data, MAX_RECORD_BYTES, what)


def _limited(data: bytes, limit_bytes: int, what: str) -> bytes:
    if len(data) > limit_bytes:
        raise BusError(
            Code.TOO_LARGE,
            f"{what} has {len(data)} bytes, at most {limit_bytes}",
            limit_bytes=limit_bytes,
            size_bytes=len(data),
        )
    return data


def _unpacked(data: bytes, limit_bytes: int) -> Plain:
    if len(data) > limit_bytes:
        raise BusError(
            Code.TOO_LARGE, f"{len(data)} bytes to unpack, at most {limit_bytes}", limit_bytes=limit_bytes
        )
    try:
        # No collection can have more items than there are bytes: a forged length cannot reserve memory.
        value: Plain = msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            ext_hook=_refuse_extension,
            max_str_len=len(data),
            max_bin_len=len(data),
            max_array_len=len(data),
            max_map_len=len(data),
            max_ext_len=0,
        )
    except (ValueError, msgpack.UnpackException) as error:
        raise BusError(Code.INVALID_MESSAGE, f"the stored bytes are damaged: {error}") from error
    return value


def _refuse_extension(code: int, data: bytes) -> Plain:
    raise ValueError(f"extension type {code} of {len(data)} bytes")


def _record(data: bytes, version: int, what: str) -> dict[str, Plain]:
    if version != CODEC_VERSION:
        raise BusError(
            Code.SCHEMA_TOO_NEW,
            f"the stored {what} has codec version {version}, this version reads {CODEC_VERSION}",
            version=version,
        )
    record = _unpacked(data, MAX_RECORD_BYTES)
    if not isinstance(record, dict):
        raise BusError(Code.INVALID_MESSAGE, f"the stored {what} is damaged: it is no map")
    return record


def _direction(value: str) -> Direction:
    try:
        return Direction(value)
    except ValueError as error:
        raise BusError(Code.INVALID_MESSAGE, f"the stored message is damaged: direction {value!r}") from error
