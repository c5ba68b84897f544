"""What each transition makes of an outbox row. Which transition is allowed from where: `outbox_rules.py`."""

from __future__ import annotations

from ..actors.errors import Code
from ..actors.value import changed
from ..storage.records import OutboxRecord, OutboxStatus
from .outbox_events import (
    Defer,
    Drop,
    Failed,
    FoundAtStart,
    ReconciledNotSent,
    ReconciledSent,
    Release,
    Resend,
    ResolveDead,
    ResolveResend,
    ResolveSent,
    Resplit,
    Sent,
    Start,
    Uncertain,
    event_word,
)
from .transition import failure, invalid_transition, keep_last


def started(record: OutboxRecord, event: Start | Resend, now_us: int) -> OutboxRecord:
    """Flying, if the row may start now."""
    due_us = record.next_attempt_at_us
    if not event.head:
        reason = "not the head of its conversation"
    elif event.held:
        reason = "held behind an unsettled part"
    elif not event.waited and due_us is not None and due_us > now_us:
        reason = "not due"
    else:
        return changed(
            record,
            status=OutboxStatus.PENDING,
            in_flight=True,
            claim=record.claim + 1,
            attempts=record.attempts + 1,
            updated_at_us=now_us,
            last_attempt_at_us=now_us,
            next_attempt_at_us=None,
            wait_us=None,
            uncertain_since_us=None,
        )
    raise invalid_transition(record.id, status=record.state, event=event_word(event), reason=reason)


def placed(record: OutboxRecord, seq: int) -> OutboxRecord:
    """A new row, ready or flying, with the place that the journal gave it."""
    return changed(record, seq=seq)


def landed(
    record: OutboxRecord,
    event: Sent | Failed | Uncertain | Defer | Release | Resplit | FoundAtStart,
    now_us: int,
) -> OutboxRecord:
    """Where the outcome of a send leaves the row."""
    match event:
        case Sent():
            return sent(record, event, now_us)
        case Failed():
            return _failed(record, event, now_us)
        case Uncertain():
            return _uncertain(record, event.reason, event, now_us)
        case FoundAtStart():
            return _uncertain(record, "the process ended before the outcome was stored", event, now_us)
        case Defer():
            return changed(
                record,
                in_flight=False,
                attempts=record.attempts - 1,
                next_attempt_at_us=event.until_us,
                wait_us=event.wait_us,
                updated_at_us=now_us,
            )
        case Release() | Resplit():
            return changed(record, in_flight=False, attempts=record.attempts - 1, updated_at_us=now_us)


def sent(record: OutboxRecord, event: Sent, now_us: int) -> OutboxRecord:
    """The channel has it."""
    return changed(
        record,
        status=OutboxStatus.SENT,
        in_flight=False,
        accepted=True,
        deduped=event.deduped,
        platform_message_id=event.platform_message_id,
        degraded=event.degraded or record.degraded,
        updated_at_us=now_us,
        sent_at_us=now_us,
    )


def _failed(record: OutboxRecord, event: Failed, now_us: int) -> OutboxRecord:
    if not event.text.strip():
        raise invalid_transition(
            record.id, status=record.state, event=event_word(event), reason="without a text"
        )
    if event.retry_at_us is None:
        return dead(record, event.code, event.text, now_us)
    return changed(
        record,
        status=OutboxStatus.FAILED,
        in_flight=False,
        next_attempt_at_us=event.retry_at_us,
        wait_us=event.wait_us,
        updated_at_us=now_us,
        errors=keep_last(record.errors, failure(event.code, event.text, now_us, record.claim)),
    )


def _uncertain(
    record: OutboxRecord, reason: str, event: Uncertain | FoundAtStart, now_us: int
) -> OutboxRecord:
    return changed(
        record,
        in_flight=False,
        uncertain_since_us=now_us,
        next_attempt_at_us=event.next_at_us,
        wait_us=event.wait_us,
        updated_at_us=now_us,
        errors=keep_last(record.errors, failure(Code.DELIVERY_UNCERTAIN, reason, now_us, record.claim)),
    )


def settled(
    record: OutboxRecord,
    event: ReconciledSent | ReconciledNotSent | ResolveSent | ResolveResend | ResolveDead | Drop,
    now_us: int,
) -> OutboxRecord:
    """Where a decision about an uncertain row leaves it."""
    match event:
        case ReconciledSent():
            # The channel itself said so; a person's word leaves `accepted` unknown.
            return changed(_known_sent(record, event.platform_message_id, now_us), accepted=True)
        case ResolveSent():
            return _known_sent(record, event.platform_message_id, now_us)
        case ReconciledNotSent():
            return _waiting(record, now_us)
        case ResolveResend():
            return renewed(record, now_us)
        case ResolveDead():
            return dead(record, event.code, event.text, now_us)
        case Drop():
            return dead(record, Code.DELIVERY_UNCERTAIN, "dropped by policy", now_us)


def _known_sent(record: OutboxRecord, platform_message_id: str | None, now_us: int) -> OutboxRecord:
    return changed(
        record,
        status=OutboxStatus.SENT,
        platform_message_id=platform_message_id,
        sent_at_us=now_us,
        uncertain_since_us=None,
        next_attempt_at_us=None,
        wait_us=None,
        updated_at_us=now_us,
    )


def _waiting(record: OutboxRecord, now_us: int) -> OutboxRecord:
    return changed(
        record,
        status=OutboxStatus.PENDING,
        uncertain_since_us=None,
        dead_at_us=None,
        next_attempt_at_us=None,
        wait_us=None,
        updated_at_us=now_us,
    )


def renewed(record: OutboxRecord, now_us: int) -> OutboxRecord:
    """Ready, with a new budget."""
    # `attempts` counts within a generation, so a new budget is a new generation.
    return changed(_waiting(record, now_us), generation=record.generation + 1, attempts=0)


def dead(record: OutboxRecord, code: str, text: str, now_us: int) -> OutboxRecord:
    """Dead, with one more reason."""
    return changed(
        record,
        status=OutboxStatus.FAILED,
        in_flight=False,
        uncertain_since_us=None,
        next_attempt_at_us=None,
        wait_us=None,
        dead_at_us=now_us,
        updated_at_us=now_us,
        errors=keep_last(record.errors, failure(code, text, now_us, record.claim)),
    )
