"""What a timer sets on its way when it fires, and the timers that a turn sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.codec import pack_event, pack_message
from ..actors.envelope import MessageEnvelope
from ..actors.event import Event, validate_event
from ..actors.extensions import EMPTY
from ..actors.identifiers import new_uuid7, session_id_for
from ..actors.instants import rfc3339_from_us
from ..actors.keys import prefix_of
from ..actors.message import BusMessage, Direction, validate_message
from ..storage.commands import NewEvent, NewInbox, NewTimer
from ..storage.records import InboxRecord, InboxStatus, StoredTimer, TimerContent
from .effects import TimerEffect
from .timer_rules import arrival_key, new_record

if TYPE_CHECKING:
    from .services import Services
    from .turn import QueuedRow


def new_timer(effect: TimerEffect, cause: QueuedRow, *, now_us: int) -> NewTimer:
    """A timer that a turn sets.

    Raises:
        BusError: INVALID_MESSAGE, TOO_LARGE: what it brings could not be stored when it fires.
    """
    message = cause.message
    timer = StoredTimer(
        new_record(
            effect.id,
            effect.place,
            now_us=now_us,
            after_us=effect.after_us,
            at_us=effect.at_us,
            rule=effect.rule,
        ),
        TimerContent(
            payload=effect.payload,
            headers=effect.headers,
            correlation_id=message.correlation_id,
            causation_id=message.id,
            hops=message.hops + 1,
        ),
    )
    check_timer(timer, now_us=now_us)
    return NewTimer(record=timer.record, content=timer.content)


def check_timer(timer: StoredTimer, *, now_us: int) -> None:
    """Check that what a timer brings can be stored when it fires: one that cannot would fail again at each start.

    Raises:
        BusError: INVALID_MESSAGE, TOO_LARGE.
    """
    if timer.record.kind == "message":
        # The names of a channel and of a session count for nothing here.
        pack_message(_message(timer, None, new_uuid7(), now_us))
    else:
        pack_event(_event(timer, now_us))


def timer_arrival(timer: StoredTimer, services: Services, *, now_us: int) -> NewInbox | NewEvent:
    """What a timer that fires brings: a new message of its conversation, or an event."""
    record = timer.record
    store = services.store
    if record.kind == "event":
        return NewEvent(
            id=store.next_event_id(),
            shard=record.shard,
            partition=record.partition,
            event=_event(timer, now_us),
            dedupe_key=arrival_key(record),
        )
    key, info = record.conversation_key or "", store.info
    session_id = session_id_for(info.uuid, info.created_at_us, key)
    message = _message(timer, services.prefixes.get(prefix_of(key)), session_id, now_us)
    arrived = InboxRecord(
        id=store.next_inbox_id(),
        shard=record.shard,
        seq=0,
        topic=record.topic,
        partition=record.partition,
        offset=0,
        channel=message.channel,
        conversation_key=message.conversation_key,
        status=InboxStatus.QUEUED,
        accepted_at_us=now_us,
    )
    return NewInbox(record=arrived, message=message, dedupe_key=arrival_key(record))


def _message(timer: StoredTimer, channel: str | None, session_id: str, now_us: int) -> BusMessage:
    record, content = timer.record, timer.content
    key, text = record.conversation_key, content.payload
    if key is None or not isinstance(text, str):
        raise AssertionError("a timer for a conversation has a key and a text")
    name, message_id = arrival_key(record), new_uuid7()
    message = BusMessage(
        id=message_id,
        direction=Direction.INBOUND,
        channel=channel,
        topic=record.topic,
        conversation_key=key,
        idempotency_key=name,
        correlation_id=content.correlation_id or message_id,
        causation_id=content.causation_id,
        payload=MessageEnvelope(
            message_id=name,
            text=text,
            sent_at=rfc3339_from_us(record.due_at_us),
            session_id=session_id,
        ),
        created_at_us=now_us,
        hops=content.hops,
        extensions=EMPTY,
    )
    validate_message(message)
    return message


def _event(timer: StoredTimer, now_us: int) -> Event:
    record, content = timer.record, timer.content
    event = Event(
        id=new_uuid7(),
        ts_us=now_us,
        topic=record.topic,
        key=record.conversation_key,
        headers=content.headers,
        payload=content.payload,
        trace_id=content.correlation_id,
        hops=content.hops,
    )
    validate_event(event)
    return event
