"""Emits that wait for a relay, as rows: what each becomes at its home, packed whole."""

from __future__ import annotations

from typing import Final, cast

import msgpack

from ...actors.codec import CODEC_VERSION, pack_event, pack_message, unpack_event, unpack_message
from ...actors.errors import BusError, Code
from ...actors.plain import Plain
from ...actors.record import optional_count, optional_text, required_count, required_text
from ..commands import DropTimer, Emit, EmitNumber, NewEvent, NewInbox, NewOutbox, NewRow, NewTimer, Publish
from ..records import InboxRecord, InboxStatus, OutboxRecord
from .rows import CONTENT_CODEC, Row, pack_content, pack_errors, unpack_content, unpack_errors
from .timers import pack_new_timer, unpack_new_timer

EMIT_CODEC: Final = 1
"""Version of the packed form, stored beside each emit."""


def pack_emit(emit: Emit, at_us: int) -> Row:
    """The bindings of `INSERT_EMIT`.

    A row arrives claimed by nobody, before any turn or send, so only what it is born with is packed.
    """
    number = emit.number
    row = emit.row
    if isinstance(row, NewInbox):
        target, packed = row.record.shard, _pack_inbox(row)
    elif isinstance(row, NewOutbox):
        target, packed = row.record.shard, _pack_outbox(row)
    elif isinstance(row, NewTimer):
        target, packed = row.record.shard, {"kind": "timer", **pack_new_timer(row)}
    elif isinstance(row, DropTimer):
        target, packed = row.shard, {"kind": "drop-timer", "id": row.id, "shard": row.shard}
    else:
        target, packed = row.shard, _pack_event(row)
    packed["at_us"] = at_us
    return (number.shard, number.seq, number.index, target, EMIT_CODEC, msgpack.packb(packed))


def unpack_emit(number: EmitNumber, codec: int, body: bytes) -> Publish:
    """The publish that relays a waiting emit.

    Raises:
        BusError: SCHEMA_TOO_NEW, an unknown version; INVALID_MESSAGE, damaged bytes.
    """
    if codec != EMIT_CODEC:
        raise BusError(Code.SCHEMA_TOO_NEW, f"a stored emit has codec version {codec}", version=codec)
    try:
        packed = cast("dict[str, Plain]", msgpack.unpackb(body))
        return Publish(row=_unpack_row(packed), at_us=required_count(packed, "at_us"), relayed=number)
    except (ValueError, KeyError, AttributeError, msgpack.UnpackException) as error:
        raise BusError(Code.INVALID_MESSAGE, f"a stored emit is damaged: {error!r}") from error


def _pack_inbox(row: NewInbox) -> dict[str, Plain]:
    record = row.record
    return {
        "kind": "inbox",
        "id": record.id,
        "shard": record.shard,
        "topic": record.topic,
        "partition": record.partition,
        "channel": record.channel,
        "conversation_key": record.conversation_key,
        "status": record.status.value,
        "accepted_at_us": record.accepted_at_us,
        "dead_at_us": record.dead_at_us,
        "errors": pack_errors(record.errors),
        "dedupe_key": row.dedupe_key,
        "codec": CODEC_VERSION,
        "body": pack_message(row.message),
        "raw": row.message.raw,
    }


def _pack_outbox(row: NewOutbox) -> dict[str, Plain]:
    record = row.record
    return {
        "kind": "outbox",
        "id": record.id,
        "shard": record.shard,
        "channel": record.channel,
        "idempotency_key": record.idempotency_key,
        "part": record.part,
        "conversation_key": record.conversation_key,
        "created_at_us": record.created_at_us,
        "updated_at_us": record.updated_at_us,
        "inbox_id": row.content.inbox_id,
        "codec": CONTENT_CODEC,
        "body": pack_content(row.content),
    }


def _pack_event(row: NewEvent) -> dict[str, Plain]:
    return {
        "kind": "event",
        "id": row.id,
        "shard": row.shard,
        "partition": row.partition,
        "dedupe_key": row.dedupe_key,
        "codec": CODEC_VERSION,
        "body": pack_event(row.event),
    }


def _unpack_row(packed: dict[str, Plain]) -> NewRow:
    kind = required_text(packed, "kind")
    if kind == "timer":
        return unpack_new_timer(packed)
    if kind == "drop-timer":
        return DropTimer(required_text(packed, "id"), required_count(packed, "shard"))
    codec = required_count(packed, "codec")
    body = cast("bytes", packed["body"])
    if kind == "inbox":
        return NewInbox(
            record=_unpack_inbox_record(packed),
            message=unpack_message(body, codec, raw=cast("bytes | None", packed["raw"])),
            dedupe_key=required_text(packed, "dedupe_key"),
        )
    if kind == "outbox":
        content = unpack_content(body, codec, optional_count(packed, "inbox_id"))
        return NewOutbox(record=_unpack_outbox_record(packed), content=content)
    return NewEvent(
        id=required_count(packed, "id"),
        shard=required_count(packed, "shard"),
        partition=required_count(packed, "partition"),
        event=unpack_event(body, codec),
        dedupe_key=optional_text(packed, "dedupe_key"),
    )


def _unpack_inbox_record(packed: dict[str, Plain]) -> InboxRecord:
    return InboxRecord(
        id=required_count(packed, "id"),
        shard=required_count(packed, "shard"),
        seq=0,
        topic=required_text(packed, "topic"),
        partition=required_count(packed, "partition"),
        offset=0,
        channel=optional_text(packed, "channel"),
        conversation_key=required_text(packed, "conversation_key"),
        status=InboxStatus(required_text(packed, "status")),
        accepted_at_us=required_count(packed, "accepted_at_us"),
        dead_at_us=optional_count(packed, "dead_at_us"),
        errors=unpack_errors(required_text(packed, "errors")),
    )


def _unpack_outbox_record(packed: dict[str, Plain]) -> OutboxRecord:
    return OutboxRecord(
        id=required_count(packed, "id"),
        shard=required_count(packed, "shard"),
        seq=0,
        channel=required_text(packed, "channel"),
        idempotency_key=required_text(packed, "idempotency_key"),
        part=required_count(packed, "part"),
        conversation_key=required_text(packed, "conversation_key"),
        created_at_us=required_count(packed, "created_at_us"),
        updated_at_us=required_count(packed, "updated_at_us"),
    )
