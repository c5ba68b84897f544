"""Turns what a handler decided into rows of this shard and emits to other homes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.keys import shard_of
from ..actors.value import changed, value
from ..storage.commands import DropTimer, Emit, EmitNumber, NewOutbox, NewTimer, TimerWrite
from ..storage.records import OutboundContent, OutboxRecord
from .effects import CancelEffect, Effect, EventEffect, MessageEffect, SendEffect, TimerEffect
from .emits import event_emit, message_emit
from .known_text import rows_of_send
from .lane import Lane
from .outbox_rules import Start, next_outbox_record
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


def plain_reply(effects: list[Effect], cause: QueuedRow, services: Services) -> SendEffect | None:
    """The effect of a turn that says one text in its own conversation, in one part: nearly all do just that."""
    effect = effects[0]
    if (
        len(effects) == 1
        and isinstance(effect, SendEffect)
        and effect.rich is None
        and effect.conversation_key == cause.record.conversation_key
        and len(effect.text) <= services.deliveries[effect.ref.channel].one_part_chars
    ):
        return effect
    return None


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
                write = _timer_write(effect, cause, now_us)
                shard = write.record.shard if isinstance(write, NewTimer) else write.shard
                if shard == home and not _is_pending(write, services):
                    timers.append(write)
                else:
                    emits.append(Emit(number, write))
    return own, emits, tuple(timers)


def _timer_write(effect: TimerEffect | CancelEffect, cause: QueuedRow, now_us: int) -> NewTimer | DropTimer:
    if isinstance(effect, TimerEffect):
        return new_timer(effect, cause, now_us=now_us)
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


_STARTED = next_outbox_record(_ROW, Start(), now_us=0, claim=None)


def _new_sends(
    effect: SendEffect, cause: QueuedRow, services: Services, now_us: int
) -> list[tuple[OutboxRecord, OutboundContent]]:
    home = shard_of(effect.conversation_key, services.store.info.shard_count)
    record = first_record(effect, services, shard=home, now_us=now_us)
    return rows_of_send(record, content_of(effect, cause), services)


def first_record(
    effect: SendEffect, services: Services, *, shard: int, now_us: int, rides: bool = False
) -> OutboxRecord:
    """The row of a send, or of its first part; with `rides` it has started already."""
    ref = effect.ref
    return changed(
        _STARTED if rides else _ROW,
        id=services.store.next_outbox_id(),
        shard=shard,
        channel=ref.channel,
        idempotency_key=ref.idempotency_key,
        part=ref.part,
        conversation_key=effect.conversation_key,
        created_at_us=now_us,
        updated_at_us=now_us,
        last_attempt_at_us=now_us if rides else None,
    )


def content_of(effect: SendEffect, cause: QueuedRow) -> OutboundContent:
    """What a send of this turn brings."""
    return OutboundContent(
        text=effect.text,
        inbox_id=cause.record.id,
        reply_to=effect.reply_to,
        on_uncertain=effect.on_uncertain,
        correlation_id=cause.message.correlation_id,
        hops=cause.message.hops + 1,
        is_bulk=effect.is_bulk,
        rich=effect.rich,
    )
