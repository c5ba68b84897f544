"""What a person decides over one shard's rows: requeue a message, settle a send. One of two wins, the other is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.errors import BusError, Code
from ..actors.value import changed
from ..storage.commands import Committed
from ..storage.records import OutboxState
from .inbox_rules import Requeue as RequeueEvent
from .inbox_rules import inbox_move
from .outbox_holds import is_later_part, moves_of_decision
from .send import PendingRow, place_of
from .shard_messages import MoveSend, Requeue
from .turn import QueuedRow

if TYPE_CHECKING:
    from ..storage.records import OutboxRecord
    from .services import Services
    from .shard import ShardActor
    from .turn_plan import OutboxLane


class ShardDesk:
    """Carries decisions out under the shard's lease."""

    def __init__(self, shard: ShardActor, services: Services) -> None:
        self._shard = shard
        self._services = services

    def requeue(self, message: Requeue) -> None:
        """Send a dead or parked message through again, as a new arrival."""
        row_id, reply = message.row_id, message.reply
        stored = self._services.store.reader.inbox(row_id)
        if stored is None:
            reply.fail(BusError(Code.NOT_FOUND, "no such message", row_id=row_id))
            return
        if message.generation not in (None, stored.record.generation):
            reply.fail(_too_late("message", row_id))
            return
        try:
            move = inbox_move(
                stored.record, RequeueEvent(), now_us=self._services.clock.wall_us(), claim=None
            )
        except BusError as error:
            reply.fail(error)
            return

        def then(committed: Committed) -> None:
            record = changed(move.after, seq=committed.tails[0][1])
            self._shard.inbox.arrived(QueuedRow(record, stored.message, holds_token=False))
            reply.set(row_id)

        def refused(error: BusError) -> None:
            reply.fail(_too_late("message", row_id, error))

        self._shard.submit_moves(inbox=(move,), then=then, refused=refused, control=message.control)

    def move_send(self, message: MoveSend) -> None:
        """Apply a decision to a stored send."""
        row_id, reply = message.row_id, message.reply
        stored = self._services.store.reader.outbox(row_id)
        if stored is None:
            reply.fail(BusError(Code.NOT_FOUND, "no such send", row_id=row_id))
            return
        if message.generation not in (None, stored.record.generation):
            reply.fail(_too_late("send", row_id))
            return
        record, reader = stored.record, self._services.store.reader
        parts = reader.text_parts(record.channel, record.idempotency_key)
        try:
            moves = moves_of_decision(record, message.event, parts, now_us=self._services.clock.wall_us())
        except BusError as error:
            reply.fail(error)
            return
        contents = {part.record.id: part.content for part in parts}
        afters = {move.after.id: move.after for move in moves}
        outbox = self._shard.outbox

        def then(committed: Committed) -> None:
            self._drop_later_parts(record)
            # What it blocked came before what arrives now.
            self._go_on_behind(record)
            for moved_id, seq in committed.tails:
                outbox.arrived(PendingRow(changed(afters[moved_id], seq=seq), contents[moved_id]))
            reply.set(row_id)

        def refused(error: BusError) -> None:
            reply.fail(_too_late("send", row_id, error))

        self._let_go(record)
        self._shard.submit_moves(outbox=moves, then=then, refused=refused, control=message.control)

    def _let_go(self, record: OutboxRecord) -> None:
        """If the send waits as the head of its lane, the lane goes on without it."""
        outbox = self._shard.outbox
        lanes, lane = outbox.lanes, outbox.lanes.find(record.conversation_key)
        if lane is None:
            return
        if _is_at_work(lane, record):
            # Its parts wait for its end anyway, and stay: where it is quicker than the decision, that one is refused.
            return
        if lane.queue and lane.queue[0].record.id == record.id:
            if lane.due_us is not None:
                lanes.wake(lane)
            lanes.release(lanes.take(lane))
            outbox.look(lane)
        else:
            lanes.pass_over(lane, place_of(record))
        self._drop_later_parts(record)

    def _drop_later_parts(self, record: OutboxRecord) -> None:
        lanes = self._shard.outbox.lanes
        lane = lanes.find(record.conversation_key)
        if lane is not None:
            lanes.drop(lane, lambda row: is_later_part(row.record, record))

    def _go_on_behind(self, record: OutboxRecord) -> None:
        """The decision is on disk: what the send blocked goes on."""
        delivery = self._services.deliveries.get(record.channel)
        if delivery is not None and delivery.adapter.caps.block_on_uncertain:
            self._shard.outbox.lanes.read_again(record.conversation_key, place_of(record))
            self._shard.flush_soon()


def _is_at_work(lane: OutboxLane, record: OutboxRecord) -> bool:
    """Whether the send is being started, looked up, or sent again: it has left the queue of a lane that is busy."""
    if not lane.busy or any(row.record.id == record.id for row in lane.queue):
        return False
    if record.state is OutboxState.UNCERTAIN:
        return record.next_attempt_at_us is not None
    return record.state in (OutboxState.READY, OutboxState.FAILED)


def _too_late(what: str, row_id: int, cause: BusError | None = None) -> BusError:
    error = BusError(Code.INVALID_TRANSITION, f"the {what} has changed meanwhile", row_id=row_id)
    error.__cause__ = cause
    return error
