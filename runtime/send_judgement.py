"""What follows from the outcome of a send: for its row, for its chat, for its channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..storage.commands import Fact, OutboxMove
from ..storage.records import OutboxStatus
from .channel import NotSent, Sent
from .outbox_rules import Defer, outbox_move, sent_move
from .outbox_rules import Sent as SentEvent
from .reports import report_send
from .send_outcome import outcome_moves

if TYPE_CHECKING:
    from .channel import SendOutcome
    from .send import Send
    from .services import Services


def judge(
    send: Send, outcome: SendOutcome | None, services: Services, *, now_us: int
) -> tuple[tuple[OutboxMove, ...], tuple[Fact, ...]]:
    """The transitions of a send that has ended, and the facts to store with them; both are in force from here on."""
    record, delivery = send.row.record, send.delivery
    recipients = delivery.recipients
    if isinstance(outcome, Sent) and not (delivery.pauses.stored or recipients.unreachable.marks):
        # What nearly every send comes to: there is nothing to learn from it.
        event = SentEvent(outcome.platform_message_id, outcome.deduped, send.degraded)
        return (sent_move(record, event, now_us=now_us),), ()
    moved = recipients.moved(outcome, record.conversation_key, send.address, now_us)
    if moved is not None and isinstance(outcome, NotSent):
        # The platform said where the chat is: no attempt, and nothing to wait for.
        move = outbox_move(record, Defer(code=str(outcome.code)), now_us=now_us, claim=record.claim)
        services.count("moved")
        services.log.info("chat.moved", channel=record.channel, conversation_key=record.conversation_key)
        return (move,), moved
    unit = services.random.random()
    moves = outcome_moves(record, outcome, send.policy, now_us=now_us, unit=unit, degraded=send.degraded)
    after = moves[-1].after
    if after.status is not OutboxStatus.SENT:
        report_send(after, moves[-1].code, services)
    facts = delivery.pauses.note(outcome, after, now_us)
    return moves, (*facts, *recipients.note(outcome, after, now_us))


__all__ = ["judge"]
