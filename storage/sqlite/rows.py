"""Records as rows, rows as records: the only place that knows the order of the columns."""

from __future__ import annotations

import json
from typing import Final, cast

import msgpack

from ...actors.codec import CODEC_VERSION, pack_message, unpack_message
from ...actors.content import rich_from_record, rich_to_record
from ...actors.errors import BusError, Code
from ...actors.message import BusMessage
from ...actors.plain import Plain
from ...actors.record import optional_count, optional_map, optional_text, required_text
from ..commands import ControlPart, ControlStep, Fact, OutboxRewrite, StateWrite
from ..records import (
    ControlStatus,
    Failure,
    InboxRecord,
    InboxStatus,
    OnUncertain,
    OutboundContent,
    OutboxRecord,
    OutboxStatus,
    StoredInbox,
    StoredOutbox,
)

Value = None | int | float | bytes | str
Row = tuple[Value, ...]

CONTENT_CODEC: Final = 1
"""Version of `pack_content`, stored beside each outbox row."""

MAX_STATE_BYTES: Final = 256 * 1024
MAX_FACT_BYTES: Final = 64 * 1024

_NO_ERRORS: Final = "[]"

INBOX_GUARDS: Final = 5
OUTBOX_GUARDS: Final = 8
"""How many of a move's values say what the row was."""

InboxColumns = tuple[
    int, int, int, str, int, int, str | None, str, str, int, int, int, int, int, int, int, int | None, int | None,
    int | None, int | None, int | None, str,
]  # fmt: skip
OutboxColumns = tuple[
    int, int, int, str, str, int, str, str, int, int, int, int | None, int | None, str | None, str | None, int, int,
    int, int | None, int | None, int | None, int | None, int | None, int | None, str, int | None,
]  # fmt: skip


def new_inbox_row(
    record: InboxRecord,
    message: BusMessage,
    seq: int,
    offset: int,
    status: str,
    claim: int,
    epoch: int,
    started_at_us: int | None,
    change_seq: int,
    dedupe_key: str,
) -> Row:
    """The bindings of `INSERT_NEW_INBOX`: what a message arrives with, and what the journal decides of it."""
    return (
        record.id, record.shard, seq, record.topic, record.partition, offset, record.channel, record.conversation_key,
        status, claim, epoch, record.accepted_at_us, started_at_us, change_seq, dedupe_key,
        message.extensions.platform_message_id, message.idempotency_key, message.participant_key,
        message.created_at_us, message.hops, CODEC_VERSION, pack_message(message), message.raw,
    )  # fmt: skip


def inbox_row(
    record: InboxRecord, message: BusMessage, seq: int, offset: int, change_seq: int, dedupe_key: str
) -> Row:
    """The bindings of `INSERT_INBOX`: the whole record, of a message that is not to be handled."""
    return (
        record.id, record.shard, seq, record.topic, record.partition, offset, record.channel, record.conversation_key,
        record.status, record.claim, record.failures, record.crashes, record.blames, record.generation, record.epoch,
        record.accepted_at_us, record.started_at_us, record.done_at_us, record.dead_at_us, record.next_at_us,
        record.wait_us, *error_columns(record.errors), change_seq, dedupe_key,
        message.extensions.platform_message_id, message.idempotency_key, message.participant_key,
        message.created_at_us, message.hops, CODEC_VERSION, pack_message(message), message.raw,
    )  # fmt: skip


def new_outbox_row(
    record: OutboxRecord,
    content: OutboundContent,
    seq: int,
    started_at_us: int | None,
    change_seq: int,
) -> Row:
    """The bindings of `INSERT_NEW_OUTBOX`: a send that waits, or with a time its first start rode along."""
    # A first start is claim 1 and attempt 1, whether the record counts it yet or not.
    started = started_at_us is not None
    return (
        record.id, record.shard, seq, record.channel, record.idempotency_key, record.part, record.conversation_key,
        started, started, started, record.generation, record.created_at_us, record.updated_at_us, started_at_us,
        change_seq, content.inbox_id, CONTENT_CODEC, pack_content(content),
    )  # fmt: skip


def outbox_row(record: OutboxRecord, content: OutboundContent, seq: int, change_seq: int) -> Row:
    """The bindings of `INSERT_OUTBOX`: the whole record, of a send that is not to start."""
    return (
        record.id, record.shard, seq, record.channel, record.idempotency_key, record.part, record.conversation_key,
        record.status, record.in_flight, record.claim, record.attempts, record.accepted, record.deduped,
        record.platform_message_id, record.degraded, record.generation, record.created_at_us, record.updated_at_us,
        record.last_attempt_at_us, record.sent_at_us, record.next_attempt_at_us, record.wait_us,
        record.uncertain_since_us, record.dead_at_us, *error_columns(record.errors), change_seq, content.inbox_id,
        CONTENT_CODEC, pack_content(content),
    )  # fmt: skip


def inbox_move(before: InboxRecord, after: InboxRecord, change_seq: int) -> Row:
    """The bindings of `MOVE_INBOX`: into a row without errors."""
    return (
        after.status, after.claim, after.failures, after.crashes, after.blames, after.generation, after.epoch,
        after.started_at_us, after.done_at_us, after.dead_at_us, after.next_at_us, after.wait_us, change_seq,
        after.id, before.shard, before.claim, before.status, before.generation,
    )  # fmt: skip


def outbox_move(before: OutboxRecord, after: OutboxRecord, change_seq: int) -> Row:
    """The bindings of `MOVE_OUTBOX`: into a row without errors."""
    return (
        after.status, after.in_flight, after.claim, after.attempts, after.accepted, after.deduped,
        after.platform_message_id, after.degraded, after.generation, after.updated_at_us, after.last_attempt_at_us,
        after.sent_at_us, after.next_attempt_at_us, after.wait_us, after.uncertain_since_us, after.dead_at_us,
        change_seq, after.id, before.shard, before.claim, before.status, before.in_flight, before.generation,
        before.uncertain_since_us is None, before.dead_at_us is None,
    )  # fmt: skip


def with_errors(move: Row, guards: int, errors: tuple[Failure, ...], *seq: int) -> Row:
    """The bindings of `MOVE_FAILED_…`, or with a `seq` those of `MOVE_…_TO_TAIL`.

    Args:
        move: From `inbox_move` or `outbox_move`; its last `guards` values say what the row was.
    """
    return (*move[:-guards], *seq, *error_columns(errors), *move[-guards:])


def outbox_rewrite(rewrite: OutboxRewrite) -> Row:
    """The bindings of `REWRITE_OUTBOX`."""
    after = rewrite.move.after
    return (CONTENT_CODEC, pack_content(rewrite.content), after.id, after.shard, after.claim)


def control_row(control: ControlPart, at_us: int, instance: int) -> Row:
    """The bindings of `MOVE_CONTROL`."""
    if isinstance(control, ControlStep):
        return (ControlStatus.WAITING, None, control.progress, None, None, None, control.number)
    status = ControlStatus.DONE if control.code is None else ControlStatus.REFUSED
    return (status, control.code, control.result, at_us, instance, control.args, control.number)


def state_row(state: StateWrite, shard: int, at_us: int) -> Row | None:
    """The bindings of `WRITE_STATE`; None where the state goes.

    Raises:
        BusError: TOO_LARGE.
    """
    value = state.value
    if value is None:
        return None
    if len(value) > MAX_STATE_BYTES:
        check_size("a state", value, MAX_STATE_BYTES)
    return (state.conversation_key, shard, value, state.version, at_us)


def fact_row(fact: Fact, at_us: int) -> Row | None:
    """The bindings of `WRITE_FACT`; None where the fact goes.

    Raises:
        BusError: TOO_LARGE.
    """
    value = fact.value
    if value is None:
        return None
    check_size("a fact", value, MAX_FACT_BYTES)
    return (fact.namespace, fact.key, value, at_us)


def pack_errors(errors: tuple[Failure, ...]) -> str:
    """The whole list as a JSON array, oldest first."""
    if not errors:
        return _NO_ERRORS
    return json.dumps(
        [
            {"at": error.at_us, "code": error.code, "text": error.text, "claim": error.claim}
            | ({} if error.own_code is None else {"own_code": error.own_code})
            for error in errors
        ]
    )


def error_columns(errors: tuple[Failure, ...]) -> tuple[str, str | None, str | None, str | None]:
    """All of them, and of the newest the three columns that people filter by."""
    if not errors:
        return (_NO_ERRORS, None, None, None)
    last = errors[-1]
    # A text from outside may hold lone surrogates, which a TEXT column cannot.
    return (pack_errors(errors), last.code, last.own_code, last.text.encode("utf-8", "replace").decode())


def unpack_errors(text: str) -> tuple[Failure, ...]:
    """Read `pack_errors`."""
    if text == _NO_ERRORS:
        return ()
    return tuple(
        Failure(
            at_us=cast("int", item["at"]),
            code=cast("str", item["code"]),
            text=cast("str", item["text"]),
            claim=cast("int", item["claim"]),
            own_code=cast("str | None", item.get("own_code")),
        )
        for item in cast("list[dict[str, int | str]]", json.loads(text))
    )


def pack_content(content: OutboundContent) -> bytes:
    """What an outbox row sends, without `inbox_id`, which has a column of its own.

    Raises:
        BusError: INVALID_MESSAGE, a text holds a lone surrogate.
    """
    record: dict[str, Plain] = {"text": content.text}
    if content.reply_to is not None:
        record["reply_to"] = content.reply_to
    if content.on_uncertain is not None:
        record["on_uncertain"] = content.on_uncertain.value
    if content.correlation_id is not None:
        record["correlation_id"] = content.correlation_id
    if content.hops:
        record["hops"] = content.hops
    if content.is_bulk:
        record["bulk"] = True
    if content.parts > 1:
        record["parts"] = content.parts
    if content.rich is not None:
        record["content"] = rich_to_record(content.rich)
    if content.is_piece:
        record["piece"] = True
    try:
        return msgpack.packb(record)
    except (UnicodeEncodeError, OverflowError) as error:
        raise BusError(Code.INVALID_MESSAGE, f"the send cannot be stored: {error}") from error


def unpack_content(data: bytes, version: int, inbox_id: int | None) -> OutboundContent:
    """Read `pack_content`.

    Raises:
        BusError: SCHEMA_TOO_NEW, an unknown version; INVALID_MESSAGE, damaged bytes.
    """
    if version != CONTENT_CODEC:
        raise BusError(Code.SCHEMA_TOO_NEW, f"a stored send has codec version {version}", version=version)
    try:
        record = cast("dict[str, Plain]", msgpack.unpackb(data))
        policy = optional_text(record, "on_uncertain")
        text = required_text(record, "text")
        rich = optional_map(record, "content")
        return OutboundContent(
            text=text,
            inbox_id=inbox_id,
            reply_to=optional_text(record, "reply_to"),
            on_uncertain=None if policy is None else OnUncertain(policy),
            correlation_id=optional_text(record, "correlation_id"),
            hops=optional_count(record, "hops") or 0,
            is_bulk=record.get("bulk") is True,
            parts=optional_count(record, "parts") or 1,
            is_piece=record.get("piece") is True,
            rich=rich_from_record(rich, text) if rich else None,
        )
    except (ValueError, AttributeError, msgpack.UnpackException) as error:
        raise BusError(Code.INVALID_MESSAGE, f"a stored send is damaged: {error!r}") from error


def read_inbox_record(row: InboxColumns) -> InboxRecord:
    """A record from the columns of `INBOX_RECORD`."""
    (
        row_id, shard, seq, topic, partition, offset, channel, key, status, claim, failures, crashes, blames,
        generation, epoch, accepted_at, started_at, done_at, dead_at, next_at, wait, errors,
    ) = row  # fmt: skip
    return InboxRecord(
        id=row_id, shard=shard, seq=seq, topic=topic, partition=partition, offset=offset, channel=channel,
        conversation_key=key, status=InboxStatus(status), claim=claim, failures=failures, crashes=crashes,
        blames=blames, generation=generation, epoch=epoch, accepted_at_us=accepted_at, started_at_us=started_at,
        done_at_us=done_at, dead_at_us=dead_at, next_at_us=next_at, wait_us=wait, errors=unpack_errors(errors),
    )  # fmt: skip


def read_outbox_record(row: OutboxColumns) -> OutboxRecord:
    """A record from the columns of `OUTBOX_RECORD`."""
    (
        row_id, shard, seq, channel, idempotency_key, part, key, status, in_flight, claim, attempts, accepted, deduped,
        platform_message_id, degraded, generation, created_at, updated_at, last_attempt_at, sent_at, next_attempt_at,
        wait, uncertain_since, dead_at, errors, purged_at,
    ) = row  # fmt: skip
    return OutboxRecord(
        id=row_id, shard=shard, seq=seq, channel=channel, idempotency_key=idempotency_key, part=part,
        conversation_key=key, status=OutboxStatus(status), in_flight=bool(in_flight), claim=claim, attempts=attempts,
        accepted=None if accepted is None else bool(accepted), deduped=None if deduped is None else bool(deduped),
        platform_message_id=platform_message_id, degraded=degraded, generation=generation, created_at_us=created_at,
        updated_at_us=updated_at, last_attempt_at_us=last_attempt_at, sent_at_us=sent_at,
        next_attempt_at_us=next_attempt_at, wait_us=wait, uncertain_since_us=uncertain_since, dead_at_us=dead_at,
        errors=unpack_errors(errors), purged_at_us=purged_at,
    )  # fmt: skip


def read_inbox(row: Row) -> StoredInbox:
    """A row of `INBOX_RECORD`, codec, body, raw."""
    codec, body, raw = cast("tuple[int, bytes, bytes | None]", row[-3:])
    record = read_inbox_record(cast("InboxColumns", row[:-3]))
    return StoredInbox(record, unpack_message(body, codec, raw=raw))


def read_outbox(row: Row) -> StoredOutbox:
    """A row of `OUTBOX_RECORD`, inbox_id, codec, body."""
    inbox_id, codec, body = cast("tuple[int | None, int, bytes]", row[-3:])
    record = read_outbox_record(cast("OutboxColumns", row[:-3]))
    return StoredOutbox(record, unpack_content(body, codec, inbox_id))


def check_size(what: str, value: bytes, limit_bytes: int) -> None:
    """Refuse what is too long.

    Raises:
        BusError: TOO_LARGE.
    """
    if len(value) > limit_bytes:
        raise BusError(
            Code.TOO_LARGE, f"{what} has {len(value)} bytes, at most {limit_bytes}", limit_bytes=limit_bytes
        )
