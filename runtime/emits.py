"""Decisions of a turn for another home: how they are numbered, and how their arrival is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..actors.envelope import MessageEnvelope
from ..actors.event import Event, validate_event
from ..actors.extensions import EMPTY
from ..actors.idempotency import turn_key
from ..actors.identifiers import new_uuid7, session_id_for
from ..actors.instants import rfc3339_from_us
from ..actors.keys import fnv1a32, prefix_of, shard_of
from ..actors.message import BusMessage, Direction, validate_message
from ..storage.commands import (
    Duplicate,
    Emit,
    EmitNumber,
    NewEvent,
    NewInbox,
    NewOutbox,
    NewRow,
    NewTimer,
    Outcome,
    Publish,
    Refused,
    Stored,
)
from ..storage.records import InboxRecord, InboxStatus
from .effects import EventEffect, MessageEffect
from .inbox_rules import accepted
from .outbox_steps import placed
from .send import PendingRow
from .shard_messages import MessageArrived, SendArrived
from .turn import QueuedRow

if TYPE_CHECKING:
    from .services import Services


def message_emit(
    effect: MessageEffect, cause: QueuedRow, number: EmitNumber, services: Services, *, now_us: int
) -> Emit:
    """An inbound message that a handler made for a conversation: it arrives there once, with the cause's hops + 1."""
    info = services.store.info
    record, message = cause.record, cause.message
    key = effect.conversation_key
    name = turn_key(
        inbound_id=record.id,
        generation=record.generation,
        verb="publish",
        name=str(number.index),
        conversation_key=key,
        store_uuid=info.uuid,
    )
    made = BusMessage(
        id=new_uuid7(),
        direction=Direction.INBOUND,
        channel=services.prefixes.get(prefix_of(key)),
        topic=effect.topic,
        conversation_key=key,
        idempotency_key=name,
        correlation_id=message.correlation_id,
        causation_id=message.id,
        payload=MessageEnvelope(
            message_id=name,
            text=effect.text,
            sent_at=rfc3339_from_us(now_us),
            session_id=session_id_for(info.uuid, info.created_at_us, key),
        ),
        created_at_us=now_us,
        hops=message.hops + 1,
        extensions=EMPTY,
    )
    validate_message(made)
    home = shard_of(key, info.shard_count)
    arrived = InboxRecord(
        id=services.store.next_inbox_id(),
        shard=home,
        seq=0,
        topic=effect.topic,
        partition=home,
        offset=0,
        channel=made.channel,
        conversation_key=key,
        status=InboxStatus.QUEUED,
        accepted_at_us=now_us,
    )
    dedupe_key = f"emit:{number.shard}:{number.seq}:{number.index}"
    return Emit(number, NewInbox(record=arrived, message=made, dedupe_key=dedupe_key))


def event_emit(
    effect: EventEffect, cause: QueuedRow, number: EmitNumber, services: Services, *, now_us: int
) -> Emit:
    """An event that a handler published."""
    event = Event(
        id=new_uuid7(),
        ts_us=now_us,
        topic=effect.topic,
        key=effect.key,
        headers=effect.headers,
        payload=effect.payload,
        trace_id=cause.message.correlation_id,
        idem_key=effect.idem_key,
        hops=cause.message.hops + 1,
    )
    fallback = f"emit:{number.shard}:{number.seq}:{number.index}"
    return Emit(number, new_event(event, services, fallback_key=fallback))


def new_event(event: Event, services: Services, *, fallback_key: str | None) -> NewEvent:
    """The row of an event: its partition by key, by the hash of its idempotency key, or in turn.

    Raises:
        BusError: INVALID_MESSAGE, INVALID_TOPIC, TOO_LARGE.
    """
    validate_event(event)
    shard_count = services.store.info.shard_count
    partitions = services.topology.events[event.topic].partitions or shard_count
    event_id = services.store.next_event_id()
    spread = event.key if event.key is not None else event.idem_key
    partition = event_id % partitions if spread is None else fnv1a32(spread.encode()) % partitions
    key = fallback_key if event.idem_key is None else f"topic:{event.topic}:{event.idem_key}"
    return NewEvent(
        id=event_id, shard=partition % shard_count, partition=partition, event=event, dedupe_key=key
    )


def tell_arrival(row: NewRow, outcome: Outcome, services: Services) -> None:
    """Tell the home of a row that it is stored there; to be called when the journal settles it, in its order.

    A lane takes what it is told in the order of `seq`: word that came late would be taken for a row it knows.
    """
    if not isinstance(outcome, Stored):
        return
    if isinstance(row, NewInbox):
        record = accepted(row.record, seq=outcome.seq, offset=outcome.offset, epoch=None)
        services.shards[record.shard].tell_arrival(
            MessageArrived(QueuedRow(record, row.message, holds_token=False))
        )
    elif isinstance(row, NewTimer):
        services.timers.told((row,))
    elif isinstance(row, NewOutbox):
        sent = placed(row.record, outcome.seq)
        services.shards[sent.shard].tell_arrival(SendArrived(PendingRow(sent, row.content)))


async def publish_row(part: Publish, services: Services) -> Stored | Duplicate:
    """Store a row that comes from no edge, tell its home, and return after the commit.

    Raises:
        BusError: the refusal, by its code.
    """
    settled = trio.Event()
    outcomes: list[Outcome] = []

    def settle(outcome: Outcome) -> None:
        try:
            tell_arrival(part.row, outcome, services)
        finally:
            outcomes.append(outcome)
            settled.set()

    await trio.lowlevel.checkpoint_if_cancelled()
    services.store.submit(part, settle)
    # Handed over it cannot be taken back: whoever publishes learns what became of it.
    with trio.CancelScope(shield=True):
        await settled.wait()
    (outcome,) = outcomes
    if isinstance(outcome, Stored | Duplicate):
        services.intake.store.stored()
        return outcome
    if isinstance(outcome, Refused):
        services.intake.store.refused(outcome.error.code)
        raise outcome.error
    raise AssertionError("a publish settles as stored, duplicate or refused")
