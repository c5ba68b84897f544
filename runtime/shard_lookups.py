"""What follows from looking an uncertain send up on its channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.errors import Code
from ..storage.commands import Commit, Committed
from ..storage.records import OnUncertain
from .channel import NotSent, Sent
from .outbox_rules import Drop, OutboxEvent, ReconciledNotSent, ReconciledSent, outbox_move
from .send_outcome import pause_us, retry_wait_us
from .shard_messages import LookedUp

if TYPE_CHECKING:
    from .send import Send
    from .services import Services
    from .shard_outbox import ShardOutbox


def end_lookup(outbox: ShardOutbox, message: LookedUp, services: Services) -> None:
    """A look-up of an uncertain send has ended."""
    send, record = message.send, message.send.row.record
    now_us = services.clock.wall_us()
    if outbox.sends.get(record.id) is not send:
        send.free_slot()
        return
    if message.failed is not None:
        if isinstance(message.outcome, NotSent):
            _ask_later(outbox, send, message.outcome, services)
            return
        if message.is_cut_off or _is_known_to_fail(send):
            _hold(outbox, send, services)
            return
        send.row.lookups += 1
        if not send.delivery.retry.is_spent(send.row.lookups):
            _hold(outbox, send, services)
            return
    event: OutboxEvent
    match message.outcome:
        case Sent(platform_message_id=platform_id):
            event = ReconciledSent(platform_id)
        case NotSent():
            event = ReconciledNotSent()
        case None:
            send.row.is_looked_up = True
            if send.policy.on_uncertain is not OnUncertain.DROP:
                _undecided(outbox, send, services)
                return
            event = Drop()
    move = outbox_move(record, event, now_us=now_us, claim=None)
    del outbox.sends[record.id]
    outbox.end(send, (move,), now_us=now_us)


def _is_known_to_fail(send: Send) -> bool:
    """Whether the channel's breaker is open: its sends spend no attempts, and its look-ups no tries."""
    breaker = send.delivery.breaker
    return breaker is not None and breaker.is_open


def _hold(outbox: ShardOutbox, send: Send, services: Services) -> None:
    """A look-up that could not be done is tried again later; the row stays the head and holds."""
    wait_s = send.delivery.retry.delay_s(max(0, send.row.lookups - 1), services.random.random())
    _leave_slot(outbox, send)
    outbox.back_off(send.lane, send.row, round(wait_s * 1e6))


def _ask_later(outbox: ShardOutbox, send: Send, refusal: NotSent, services: Services) -> None:
    """The question was refused, which is no try: a 429 pauses its scope, refused credentials stop the channel."""
    if refusal.code is Code.BAD_TOKEN:
        send.delivery.stop()
        _hold(outbox, send, services)
    else:
        _pause(outbox, send, refusal, services)


def _pause(outbox: ShardOutbox, send: Send, refusal: NotSent, services: Services) -> None:
    row, shard, now_us, unit = send.row, send.shard, services.clock.wall_us(), services.random.random()
    if refusal.retry_after_s is None:
        wait_us = round(send.delivery.retry.delay_s(row.lookups, unit) * 1e6)
    else:
        wait_us = pause_us(refusal.retry_after_s, unit)
    facts = send.delivery.pauses.begin(refusal, row.record.conversation_key, wait_us, now_us)
    _leave_slot(outbox, send)
    outbox.back_off(send.lane, row, wait_us)
    shard.submit(Commit(shard=shard.number, epoch=shard.epoch, at_us=now_us, facts=facts), _nothing)


def _undecided(outbox: ShardOutbox, send: Send, services: Services) -> None:
    """The channel cannot tell: the policy decides. Nothing changes on disk until something is sent."""
    row, retry = send.row, send.delivery.retry
    _leave_slot(outbox, send)
    if send.policy.on_uncertain is OnUncertain.RESEND and not retry.is_spent(row.record.attempts):
        outbox.back_off(send.lane, row, retry_wait_us(row.record, send.policy, services.random.random()))
        return
    row.is_parked = True
    services.ends.left_to_a_person(row.record)
    outbox.look(send.lane)


def _nothing(_: Committed) -> None:
    """The pause is in force already."""


def _leave_slot(outbox: ShardOutbox, send: Send) -> None:
    del outbox.sends[send.row.record.id]
    outbox.lanes.release(send.row)
    send.lane.busy = False
    send.free_slot()
