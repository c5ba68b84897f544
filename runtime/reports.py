"""Log lines and counters of what did not simply succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..storage.records import OutboxRecord, OutboxState
from .inbox_rules import Dead, Fail

if TYPE_CHECKING:
    from .services import Services
    from .turn import Turn


def report_turn(turn: Turn, error: BaseException, event: Fail | Dead, services: Services) -> None:
    """A turn failed: it will run again, or its message is dead."""
    record = turn.row.record
    log = services.log.bind(
        message_id=turn.row.message.id,
        conversation_key=record.conversation_key,
        topic=record.topic,
        bus_error_code=event.code,
        own_code=event.own_code,
        error_type=type(error).__name__,
        claim=record.claim,
        failures=record.failures + 1,
    )
    if isinstance(event, Dead):
        services.count("dead", 1 + len(turn.row.rest))
        log.error("turn.died")
    else:
        services.count("retried")
        log.warning("turn.failed", wait_us=event.wait_us)


def report_send(after: OutboxRecord, code: str | None, services: Services) -> None:
    """A send ended other than as sent."""
    log = services.log.bind(
        outbox_id=after.id,
        channel=after.channel,
        conversation_key=after.conversation_key,
        claim=after.claim,
        bus_error_code=code,
    )
    match after.state:
        case OutboxState.DEAD:
            services.count("dead")
            log.error("send.died")
        case OutboxState.FAILED:
            services.count("retried")
            log.warning("send.failed", wait_us=after.wait_us)
        case OutboxState.UNCERTAIN:
            log.warning("send.became_uncertain")
        case _:
            log.debug("send.released")
