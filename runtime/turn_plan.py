"""Turns what a handler decided into rows of this shard and emits to other homes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.keys import shard_of
from ..actors.value import changed, value
from ..storage.commands import DropTimer, Emit, EmitNumber, NewOutbox, NewTimer, TimerWrite
from ..storage.records import OutboundContent, OutboxRecord
from .effects import CancelEffect, Effect, EventEffect, MessageEffect, SendEffect, TimerEffect
from .emits import event_emit, message_emit
from .lane import Lane
from .parts import part_rows
from .pending_timers import pending_timer
from .send import PendingRow
from .timer_arrival import new_timer

if TYPE_CHECKING:
    from .services import Services
    from .turn import QueuedRow

OutboxLane = Lane[PendingRow]


@value
class Planned:
    """The sends, emits and timers of one turn, ready for its Commit.

    `rows` has, for each new outbox row of this shard, its lane, the row, and whether its start rides along.
    """

    new_outbox: tuple[NewOutbox, ...]
    emits: tuple[Emit, ...]
    rows: tuple[tuple[OutboxLane, PendingRow, bool], ...]
    timers: tuple[TimerWrite, ...]


def plan_effects(
    effects: list[Effect], cause: QueuedRow, services: Services, *, now_us: int
) -> tuple[list[PendingRow], list[Emit], tuple[TimerWrite, ...]]:
    """The new sends of the cause's own shard, the emits, its own timers, each in the order they were decided.

    Raises:
        BusError: an effect that cannot be stored, by its code.
    """
    own: list[PendingRow] = []
    emits: list[Emit] = []
    timers: list[TimerWrite] = []
    home = cause.record.shard
    for effect in effects:
        number = EmitNumber(home, cause.record.seq, len(emits))
        match effect:
            case SendEffect():
                for record, content in _new_sends(effect, cause, services, now_us):
                    if record.shard == home:
                        own.append(PendingRow(record, content))
                    else:
                        number = EmitNumber(home, cause.record.seq, len(emits))
                        emits.append(Emit(number, NewOutbox(record=record, content=content)))
            case MessageEffect():
                emits.append(message_emit(effect, cause, number, services, now_us=now_us))
            case EventEffect():
                emits.append(event_emit(effect, cause, number, services, now_us=now_us))
            case TimerEffect() | CancelEffect():
                write = _timer_write(effect, cause, services, now_us)
                shard = write.record.shard if isinstance(write, NewTimer) else write.shard
                if shard == home and not _is_pending(write, services):
                    timers.append(write)
                else:
                    emits.append(Emit(number, write))
    return own, emits, tuple(timers)


def _timer_write(
    effect: TimerEffect | CancelEffect, cause: QueuedRow, services: Services, now_us: int
) -> NewTimer | DropTimer:
    if isinstance(effect, TimerEffect):
        return new_timer(effect, cause, services, now_us=now_us)
    return DropTimer(effect.id, effect.shard)


def _is_pending(write: NewTimer | DropTimer, services: Services) -> bool:
    """A timer that has not come to this shard yet is taken back on its way here."""
    return isinstance(write, DropTimer) and pending_timer(services.store, write.id) is not None


_ROW = OutboxRecord(
    id=0,
    shard=0,
    seq=0,
    channel="",
    idempotency_key="",
    part=0,
    conversation_key="",
    created_at_us=0,
    updated_at_us=0,
)


def _new_sends(
    effect: SendEffect, cause: QueuedRow, services: Services, now_us: int
) -> list[tuple[OutboxRecord, OutboundContent]]:
    key = effect.conversation_key
    record = changed(
        _ROW,
        id=services.store.next_outbox_id(),
        shard=shard_of(key, services.store.info.shard_count),
        channel=effect.ref.channel,
        idempotency_key=effect.ref.idempotency_key,
        part=effect.ref.part,
        conversation_key=key,
        created_at_us=now_us,
        updated_at_us=now_us,
    )
    content = OutboundContent(
        text=effect.text,
        inbox_id=cause.record.id,
        reply_to=effect.reply_to,
        on_uncertain=effect.on_uncertain,
        correlation_id=cause.message.correlation_id,
        hops=cause.message.hops + 1,
        is_bulk=effect.is_bulk,
        rich=effect.rich,
    )
    return part_rows(record, content, services)
