"""The outbound side of one shard: one head per conversation, started on disk before a byte leaves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..storage.commands import Commit, Committed, NewOutbox, OutboxMove, Stored
from ..storage.records import OnUncertain, OutboxRecord, OutboxState, OutboxStatus
from .backlog import OutboxBacklog
from .channel import NotSent, Sent
from .effects import Effect
from .lane import Lanes
from .outbox_rules import (
    Drop,
    OutboxEvent,
    ReconciledNotSent,
    ReconciledSent,
    Release,
    Resend,
    Start,
    next_outbox_record,
    outbox_move,
)
from .outbox_steps import placed
from .reports import report_send
from .retry import rest_us
from .send import PendingRow, Send
from .send_outcome import lets_next_go, outcome_moves, retry_wait_us
from .shard_messages import LookedUp, SendDue, SendEnded
from .turn_plan import OutboxLane, Planned, plan_effects

if TYPE_CHECKING:
    from .delivery import DeliveryActor
    from .services import Services
    from .shard import ShardActor
    from .turn import QueuedRow


class ShardOutbox:
    """Outbox lanes and sends of one shard. `sends` outlives a restart: what is under way goes on."""

    def __init__(self, shard: ShardActor, services: Services, sends: dict[int, Send]) -> None:
        self._shard = shard
        self._services = services
        self.lanes: Lanes[PendingRow] = Lanes(
            OutboxBacklog(services.store.reader, shard.number), window_rows=services.window_rows
        )
        self.sends = sends
        self._to_start: list[tuple[OutboxLane, PendingRow]] = []

    # --- what a turn decides ---------------------------------------------------------------------------------

    def plan(self, cause: QueuedRow, effects: list[Effect]) -> Planned | None:
        """Turn the effects of a turn into rows and emits; reserve what can start at once.

        Raises:
            BusError: an effect that cannot be stored, by its code; nothing is reserved then.
        """
        if not effects:
            return None
        now_us = self._services.clock.wall_us()
        own, emits, timers = plan_effects(effects, cause, self._services, now_us=now_us)
        rows: list[tuple[OutboxLane, PendingRow, bool]] = []
        for row in own:
            lane, rides = self._announce(row.record)
            if rides:
                row.record = next_outbox_record(row.record, Start(), now_us=now_us, claim=None)
            rows.append((lane, row, rides))
        new = tuple(NewOutbox(record=row.record, content=row.content) for row in own)
        return Planned(new, tuple(emits), tuple(rows), timers)

    def placed(self, planned: Planned, committed: Committed) -> None:
        """The turn is on disk: start its first sends, queue the others."""
        self._services.timers.told(planned.timers)
        for (lane, row, rides), outcome in zip(planned.rows, committed.outbox, strict=True):
            lane.arriving -= 1
            if isinstance(outcome, Stored):
                row.record = placed(row.record, outcome.seq)
                if not rides:
                    self.arrived(row)
                elif lane.has_older:
                    self._put_off(lane, row)
                else:
                    self.lanes.begin(lane, row)
                    self._start(lane, row)
            elif rides:
                self.lanes.resume(lane)
                self._unreserve(lane, row)
            self._look(lane)

    def unplanned(self, planned: Planned) -> None:
        """The turn was refused: take the reservations back."""
        for lane, row, rides in planned.rows:
            lane.arriving -= 1
            if rides:
                self.lanes.resume(lane)
                self._unreserve(lane, row)
            self._look(lane)

    def _put_off(self, lane: OutboxLane, row: PendingRow) -> None:
        """Another home stored sends of the conversation before this one: they go first, so its start is taken back."""
        self.lanes.yield_place(lane)
        self._unreserve(lane, row)
        lane.busy = True
        now_us = self._services.clock.wall_us()
        move = outbox_move(row.record, Release(), now_us=now_us, claim=row.record.claim)

        def then(_: Committed) -> None:
            lane.busy = False
            self.lanes.resume(lane)
            self._look(lane)

        self._shard.submit_moves(outbox=(move,), then=then)

    def arrived(self, row: PendingRow) -> None:
        """A row of this shard is on disk."""
        lane = self.lanes.arrive(row.record.conversation_key, row)
        if lane is not None:
            self._look(lane)

    # --- starting --------------------------------------------------------------------------------------------

    @property
    def wants_flush(self) -> bool:
        """Whether the store has rows that the window has room for."""
        return self.lanes.can_refill() and not self._services.draining

    def refill(self) -> None:
        """Read what the window has room for."""
        if self._services.draining:
            for lane, row in self.take_started():
                self.lanes.put_back(lane, row)
                self._unreserve(lane, row)
            return
        for lane in self.lanes.refill():
            self._look(lane)

    def starts(self, now_us: int) -> list[OutboxMove]:
        """The starts to commit now; `started` goes on with them."""
        return [self._start_move(row, now_us) for _, row in self._to_start]

    def take_started(self) -> list[tuple[OutboxLane, PendingRow]]:
        """The rows of `starts`, which are no longer waiting to be started."""
        rows, self._to_start = self._to_start, []
        return rows

    def started(self, rows: list[tuple[OutboxLane, PendingRow]], moves: list[OutboxMove]) -> None:
        """The starts are on disk: send."""
        for (lane, row), move in zip(rows, moves, strict=True):
            row.record = move.after
            self._start(lane, row)

    def due(self, message: SendDue) -> None:
        """A lane's back-off is over."""
        if message.lane.due_us == message.due_us:
            self.lanes.wake(message.lane)
            self._look(message.lane)

    def adopt(self, send: Send) -> None:
        """After a restart: a send that is under way, or whose end is not on disk yet, keeps its lane."""
        lane = self.lanes.open(send.row.record.conversation_key)
        lane.busy = True
        self.lanes.begin(lane, send.row)
        self.lanes.leave_on_disk(lane)
        send.lane = lane
        send.is_ending = False
        if send.outcome_message is not None:
            self._shard.tell(send.outcome_message)

    def let_go(self, record: OutboxRecord) -> None:
        """A person decides over this row: if it waits as the head of its lane, the lane goes on without it."""
        lane = self.lanes.find(record.conversation_key)
        if lane is not None and lane.queue and lane.queue[0].record.id == record.id:
            if lane.due_us is not None:
                self.lanes.wake(lane)
            self.lanes.release(self.lanes.take(lane))
            self._look(lane)

    # --- outcomes --------------------------------------------------------------------------------------------

    def send_ended(self, message: SendEnded) -> None:
        """Record what became of a send, and let the next one of its conversation start in the same commit."""
        send = message.send
        if self.sends.get(send.row.record.id) is not send:
            send.delivery.pool.give_back()
            return
        if send.is_ending:
            return
        send.is_ending = True
        record, services = send.row.record, self._services
        now_us, unit = services.clock.wall_us(), services.random.random()
        moves = outcome_moves(record, message.outcome, send.policy, now_us=now_us, unit=unit)
        after = moves[-1].after
        if after.status is not OutboxStatus.SENT:
            report_send(after, moves[-1].code, services)
        self._end(send, moves)

    def looked_up(self, message: LookedUp) -> None:
        """A look-up of an uncertain send has ended."""
        send, record = message.send, message.send.row.record
        now_us = self._services.clock.wall_us()
        if self.sends.get(record.id) is not send:
            send.delivery.pool.give_back()
            return
        del self.sends[record.id]
        if message.failed is not None:
            send.row.lookups += 1
            if not send.delivery.retry.is_spent(send.row.lookups):
                self._hold_for_lookup(send)
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
                    self._undecided(send)
                    return
                event = Drop()
        self._end(send, (outbox_move(record, event, now_us=now_us, claim=None),))

    def _announce(self, record: OutboxRecord) -> tuple[OutboxLane, bool]:
        """Open the lane of a new row; its start may ride along where nothing of the conversation comes before it."""
        lane = self.lanes.open(record.conversation_key)
        was_idle = lane.is_idle
        lane.arriving += 1
        delivery = self._services.deliveries.get(record.channel)
        if delivery is None or not was_idle or self._shard.is_stopping or not delivery.pool.try_reserve():
            return lane, False
        self._shard.hold(delivery.pool)
        lane.busy = True
        self.lanes.pause(lane)
        return lane, True

    def _unreserve(self, lane: OutboxLane, row: PendingRow) -> None:
        lane.busy = False
        pool = self._services.deliveries[row.record.channel].pool
        self._shard.unhold(pool)
        pool.give_back()

    def _start_move(self, row: PendingRow, now_us: int) -> OutboxMove:
        again = row.record.state is OutboxState.UNCERTAIN
        event = Resend(waited=True) if again else Start(waited=True)
        return outbox_move(row.record, event, now_us=now_us, claim=None)

    def _start(self, lane: OutboxLane, row: PendingRow) -> None:
        """Send a row whose start is on disk and whose slot is reserved."""
        delivery = self._services.deliveries[row.record.channel]
        send = Send(self._shard, lane, row, delivery)
        self._shard.unhold(delivery.pool)
        if self._shard.is_stopping:
            move = outbox_move(
                row.record, Release(), now_us=self._services.clock.wall_us(), claim=row.record.claim
            )
            self._end(send, (move,))
            return
        self.sends[row.record.id] = send
        delivery.pool.start(send)

    def _look(self, lane: OutboxLane) -> None:
        """See whether the lane's head can start, has to wait, or can go."""
        services = self._services
        while lane.is_ready and not services.draining:
            row = lane.queue[0]
            record = row.record
            delivery = services.deliveries.get(record.channel)
            parked = record.state is OutboxState.UNCERTAIN and (
                record.next_attempt_at_us is None or (row.is_looked_up and row.is_parked)
            )
            if delivery is None or parked:
                self.lanes.release(self.lanes.take(lane))
                continue
            rest = rest_us(record.next_attempt_at_us, record.wait_us, services.clock.wall_us())
            if rest > 0 and not lane.waited:
                self.lanes.release(self.lanes.take(lane))
                self._back_off(lane, row, rest)
                return
            if delivery.pool.try_reserve():
                self._shard.hold(delivery.pool)
                self._line_up(lane, delivery)
            else:
                lane.waiting = True
                delivery.pool.reserve_later(partial(self._granted, lane, delivery))
            return
        self.lanes.settle(lane)

    def _granted(self, lane: OutboxLane, delivery: DeliveryActor) -> bool:
        lane.waiting = False
        if self._shard.outbox is not self or self._services.draining or not lane.is_ready:
            return False
        self._shard.hold(delivery.pool)
        self._line_up(lane, delivery)
        return True

    def _line_up(self, lane: OutboxLane, delivery: DeliveryActor) -> None:
        """Start the head with the next flush, or look it up first. A slot is reserved."""
        row = self.lanes.take(lane)
        lane.busy = True
        if row.record.state is OutboxState.UNCERTAIN and delivery.can_look_up and not row.is_looked_up:
            send = Send(self._shard, lane, row, delivery, is_lookup=True)
            self.sends[row.record.id] = send
            self._shard.unhold(delivery.pool)
            delivery.pool.start(send)
            return
        self._to_start.append((lane, row))
        self._shard.flush_soon()

    def _end(self, send: Send, moves: tuple[OutboxMove, ...]) -> None:
        """Commit the end of a send or look-up together with the start of the next one of the conversation."""
        shard, lane, row = self._shard, send.lane, send.row
        pool = send.delivery.pool
        after = moves[-1].after
        following: PendingRow | None = None
        now_us = self._services.clock.wall_us()
        if lets_next_go(after) and not pool.has_line:
            following = self._ride(lane, send)
        if following is None:
            pool.give_back()
            all_moves = moves
        else:
            shard.hold(pool)
            all_moves = (*moves, self._start_move(following, now_us))

        def then(_: Committed) -> None:
            self.sends.pop(after.id, None)
            send.outcome_message = None  # it holds the send: a cycle
            row.record = after
            if after.status is OutboxStatus.SENT:
                self._services.count("sent")
                self.lanes.release(row)
            else:
                self._settle(lane, row)
            if following is not None:
                following.record = all_moves[-1].after
                self._start(lane, following)
            else:
                lane.busy = False
                self._look(lane)

        commit = Commit(shard=shard.number, epoch=shard.epoch, at_us=now_us, outbox=all_moves)
        shard.submit(commit, then)

    def _ride(self, lane: OutboxLane, send: Send) -> PendingRow | None:
        """The next head, if its start may ride in the commit that ends the one before."""
        if self._services.draining or not lane.queue:
            return None
        head = lane.queue[0].record
        if head.channel != send.row.record.channel or head.state is not OutboxState.READY:
            return None
        if head.next_attempt_at_us is not None:
            return None
        return self.lanes.take(lane)

    def _settle(self, lane: OutboxLane, row: PendingRow) -> None:
        """What the lane does with a row that was not sent, once that is on disk."""
        record = row.record
        rest = rest_us(record.next_attempt_at_us, record.wait_us, self._services.clock.wall_us())
        match record.state:
            case OutboxState.READY | OutboxState.FAILED | OutboxState.UNCERTAIN if (
                record.next_attempt_at_us is not None
            ):
                self.lanes.release(row)
                self._back_off(lane, row, rest)
            case OutboxState.READY:
                self.lanes.put_back(lane, row)
            case _:
                self.lanes.release(row)

    def _back_off(self, lane: OutboxLane, row: PendingRow, wait_us: int) -> None:
        due_us = self._services.clock.wall_us() + wait_us
        self.lanes.back_off(lane, row, due_us)
        due = SendDue(self._shard.epoch, lane, due_us)
        self._services.alarms.after(wait_us / 1e6, partial(self._shard.tell, due))

    def _hold_for_lookup(self, send: Send) -> None:
        """A look-up that could not be done is tried again later; the row stays the head and holds."""
        wait_s = send.delivery.retry.delay_s(send.row.lookups - 1, self._services.random.random())
        self._leave_slot(send)
        self._back_off(send.lane, send.row, round(wait_s * 1e6))

    def _undecided(self, send: Send) -> None:
        """The channel cannot tell: the policy decides. Nothing changes on disk until something is sent."""
        row, retry = send.row, send.delivery.retry
        self._leave_slot(send)
        if send.policy.on_uncertain is OnUncertain.RESEND and not retry.is_spent(row.record.attempts):
            self._back_off(
                send.lane, row, retry_wait_us(row.record, send.policy, self._services.random.random())
            )
            return
        row.is_parked = True
        self._look(send.lane)

    def _leave_slot(self, send: Send) -> None:
        self.lanes.release(send.row)
        send.lane.busy = False
        send.delivery.pool.give_back()
