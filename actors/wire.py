"""A message on the wire: strict JSON, exact names, the payload in unpadded base64url."""

from typing import Final

from .envelope import payload_from_base64, payload_to_base64
from .errors import BusError, Code
from .extension_record import extensions_from_record, extensions_to_record
from .extensions import EMPTY, Extensions
from .identifiers import check_uuid_form
from .instants import rfc3339_from_us, us_from_rfc3339
from .message import MAX_MESSAGE_BYTES, BusMessage, Direction, validate_message
from .plain import Plain
from .record import check_keys, optional_count, optional_text, required_text
from .strict_json import dumps, loads

__all__ = ["MAX_WIRE_BYTES", "message_from_wire", "message_to_wire"]

MAX_WIRE_BYTES: Final = 2 * MAX_MESSAGE_BYTES
"""base64url and JSON escapes make a message larger than its texts."""

_KEYS = frozenset(
    {
        "id",
        "direction",
        "channel",
        "topic",
        "conversation_key",
        "participant_key",
        "idempotency_key",
        "correlation_id",
        "causation_id",
        "payload_base64",
        "created_at",
        "hops",
        "extensions",
    }
)


def message_to_wire(message: BusMessage) -> str:
    """Write a checked message as one JSON object; `raw` stays at home, what is None or empty is left out.

    Raises:
        BusError: INVALID_MESSAGE, a text holds a lone surrogate.
    """
    record: dict[str, Plain] = {"id": message.id, "direction": message.direction.value}
    if message.channel is not None:
        record["channel"] = message.channel
    record["topic"] = message.topic
    record["conversation_key"] = message.conversation_key
    if message.participant_key is not None:
        record["participant_key"] = message.participant_key
    record["idempotency_key"] = message.idempotency_key
    record["correlation_id"] = message.correlation_id
    if message.causation_id is not None:
        record["causation_id"] = message.causation_id
    record["payload_base64"] = payload_to_base64(message.payload)
    record["created_at"] = rfc3339_from_us(message.created_at_us)
    if message.hops:
        record["hops"] = message.hops
    extensions = _extensions_to_wire(message.extensions)
    if extensions:
        record["extensions"] = extensions
    return dumps(record)


def message_from_wire(data: str | bytes) -> BusMessage:
    """Read one message, strictly, and check it with `validate_message`.

    Refused are unknown and duplicate keys, null, anything after the object, padding or line breaks in base64, and
    UUIDs in another form than 36 lower-case characters of version 7 with the RFC variant. A message without
    `correlation_id` starts a correlation of its own: its `id`.

    Raises:
        BusError: INVALID_MESSAGE, INVALID_TOPIC, IDEMPOTENCY_KEY_REQUIRED or TOO_LARGE.
    """
    value = loads(data, limit_bytes=MAX_WIRE_BYTES)
    if not isinstance(value, dict):
        raise BusError(Code.INVALID_MESSAGE, "a message must be a JSON object")
    check_keys(value, _KEYS, "message")
    identity = check_uuid_form(required_text(value, "id"), "id")
    correlation = optional_text(value, "correlation_id")
    causation = optional_text(value, "causation_id")
    message = BusMessage(
        id=identity,
        direction=_direction(required_text(value, "direction")),
        channel=optional_text(value, "channel"),
        topic=required_text(value, "topic"),
        conversation_key=required_text(value, "conversation_key"),
        participant_key=optional_text(value, "participant_key"),
        # Missing and empty are one refusal, with a code of its own.
        idempotency_key=optional_text(value, "idempotency_key") or "",
        correlation_id=identity if correlation is None else check_uuid_form(correlation, "correlation_id"),
        causation_id=None if causation is None else check_uuid_form(causation, "causation_id"),
        payload=payload_from_base64(required_text(value, "payload_base64")),
        created_at_us=us_from_rfc3339(required_text(value, "created_at"), "created_at"),
        hops=optional_count(value, "hops") or 0,
        extensions=_extensions_from_wire(value["extensions"]) if "extensions" in value else EMPTY,
    )
    validate_message(message)
    return message


def _direction(value: str) -> Direction:
    try:
        return Direction(value)
    except ValueError as error:
        raise BusError(
            Code.INVALID_MESSAGE, f"direction {value[:40]!r} must be inbound or outbound", field="direction"
        ) from error


def _extensions_to_wire(extensions: Extensions) -> dict[str, Plain]:
    record = extensions_to_record(extensions)
    edited_at_us = record.pop("edited_at_us", None)
    if isinstance(edited_at_us, int):
        record["edited_at"] = rfc3339_from_us(edited_at_us)
    return record


def _extensions_from_wire(value: Plain) -> Extensions:
    if not isinstance(value, dict):
        raise BusError(Code.INVALID_MESSAGE, "extensions must be an object", field="extensions")
    if "edited_at_us" in value:
        raise BusError(
            Code.INVALID_MESSAGE, "extensions has the unknown key 'edited_at_us'", field="edited_at_us"
        )
    if "edited_at" not in value:
        return extensions_from_record(value, strict=True)
    record: dict[str, Plain] = {name: item for name, item in value.items() if name != "edited_at"}
    record["edited_at_us"] = us_from_rfc3339(required_text(value, "edited_at"), "edited_at")
    return extensions_from_record(record, strict=True)
