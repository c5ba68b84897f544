"""Sends to recipients that cannot be reached: dead at once, without a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..storage.commands import Committed
from ..storage.records import OutboxState
from .outbox_rules import Cancel, outbox_move
from .reports import report_send

if TYPE_CHECKING:
    from .delivery import DeliveryActor
    from .services import Services
    from .shard import ShardActor
    from .turn_plan import OutboxLane


def refuse_unreachable(
    lane: OutboxLane, delivery: DeliveryActor, shard: ShardActor, services: Services
) -> bool:
    """End the head of a lane dead if its conversation is marked; answers whether it did.

    What a person sends through again is tried all the same, and so is a send of which nobody knows whether it went out.
    """
    record, now_us = lane.queue[0].record, services.clock.wall_us()
    code = delivery.recipients.unreachable.code(record.conversation_key, now_us)
    if code is None or record.generation or record.state not in {OutboxState.READY, OutboxState.FAILED}:
        return False
    outbox = shard.outbox
    row = outbox.lanes.take(lane)
    lane.busy = True
    event = Cancel(str(code), "not tried: the recipient could not be reached a while ago")
    move = outbox_move(record, event, now_us=now_us, claim=None)
    services.count("unreachable")
    report_send(move.after, str(code), services)

    def then(_: Committed) -> None:
        row.record = move.after
        outbox.lanes.release(row)
        lane.busy = False
        outbox.look(lane)

    shard.submit_moves(outbox=(move,), then=then)
    return True


__all__ = ["refuse_unreachable"]
