"""The outbound side of one shard: one head per conversation, started on disk before a byte leaves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..actors.content import ref_of
from ..actors.value import changed
from ..storage.commands import NOTHING, Committed, Fact, NewOutbox, OutboxMove, Stored
from ..storage.records import OutboundContent, OutboxRecord, OutboxState, OutboxStatus
from .backlog import PAGE_ROWS, OutboxBacklog, is_clear
from .channel import NotSent
from .effects import Effect, SendEffect
from .lanes import Lanes
from .outbox_holds import is_blocked, is_drop, is_later_part, may_not_start, may_ride, moves_of_drop
from .outbox_rules import Release, Start, next_outbox_record, outbox_move
from .outbox_steps import placed
from .resplit import pieces_of, resplit
from .retry import rest_us, waiting_us
from .send import PendingRow, Send
from .send_judgement import judge
from .send_outcome import lets_next_go
from .send_refusal import refuse_unreachable
from .send_target import give_up, lacks_target
from .shard_lookups import end_lookup
from .shard_messages import LookedUp, SendDue, SendEnded
from .turn_plan import OutboxLane, Planned, content_of, first_record, plain_reply, plan_effects

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
            OutboxBacklog(services.store.reader, shard.number),
            window_rows=services.window_rows,
            reserve_rows=services.window_rows,
            scan_rows=PAGE_ROWS,
        )
        self.sends = sends
        self._to_start: list[tuple[OutboxLane, PendingRow]] = []

    # --- what a turn decides ---------------------------------------------------------------------------------

    def plan(self, cause: QueuedRow, effects: list[Effect]) -> Planned:
        """Turn the effects of a turn, at least one, into rows and emits; reserve what can start at once.

        Raises:
            BusError: an effect that cannot be stored, by its code; nothing is reserved then.
        """
        now_us = self._services.clock.wall_us()
        reply = plain_reply(effects, cause, self._services)
        if reply is not None:
            return self._plan_reply(reply, cause, now_us)
        own, emits, timers = plan_effects(effects, cause, self._services, now_us=now_us)
        rows: list[tuple[OutboxLane, PendingRow, bool]] = []
        for row in own:
            lane, rides = self._announce(row.record.conversation_key, row.record.channel, row.content)
            if rides:
                row.record = next_outbox_record(row.record, Start(), now_us=now_us, claim=None)
            rows.append((lane, row, rides))
        new = tuple(NewOutbox(record=row.record, content=row.content) for row in own)
        return Planned(new, tuple(emits), tuple(rows), timers)

    def _plan_reply(self, reply: SendEffect, cause: QueuedRow, now_us: int) -> Planned:
        """`plan` where a turn says one text in its own conversation: its row is made at once as it is stored."""
        content = content_of(reply, cause)
        lane, rides = self._announce(reply.conversation_key, reply.ref.channel, content)
        record = first_record(reply, self._services, shard=self._shard.number, now_us=now_us, rides=rides)
        row = PendingRow(record, content)
        return Planned((NewOutbox(record=record, content=content),), (), ((lane, row, rides),), ())

    def placed(self, planned: Planned, committed: Committed) -> None:
        """The turn is on disk: start its first sends, queue the others."""
        if planned.timers:
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
                    continue
            elif rides:
                self.lanes.resume(lane)
                self._unreserve(lane, row)
            self.look(lane)

    def unplanned(self, planned: Planned) -> None:
        """The turn was refused: take the reservations back."""
        for lane, row, rides in planned.rows:
            lane.arriving -= 1
            if rides:
                self.lanes.resume(lane)
                self._unreserve(lane, row)
            self.look(lane)

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
            self.look(lane)

        self._shard.submit_moves(outbox=(move,), then=then)

    def arrived(self, row: PendingRow) -> None:
        """A row of this shard is on disk."""
        lane = self.lanes.arrive(row.record.conversation_key, row)
        if lane is not None:
            self.look(lane)

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
            self.look(lane)

    def starts(self, now_us: int) -> list[OutboxMove]:
        """The starts to commit now; `started` goes on with them."""
        return [row.start_move(now_us) for _, row in self._to_start]

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
            self.look(message.lane)

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

    def send_ended(self, message: SendEnded) -> None:
        """Record what became of a send, and let the next one of its conversation start in the same commit."""
        send = message.send
        if self.sends.get(send.row.record.id) is not send:
            send.free_slot()
            return
        if send.is_ending:
            return
        send.is_ending = True
        services = self._services
        outcome = message.outcome
        if isinstance(outcome, NotSent) and (
            pieces := pieces_of(send.row.content, outcome, send.delivery.adapter.caps)
        ):
            resplit(self._shard, self, send, pieces, services)
            return
        now_us = services.clock.wall_us()
        moves, facts = judge(send, outcome, services, now_us=now_us)
        self.end(send, moves, facts, now_us=now_us)

    def looked_up(self, message: LookedUp) -> None:
        """A look-up of an uncertain send has ended."""
        end_lookup(self, message, self._services)

    def _announce(self, key: str, channel: str, content: OutboundContent) -> tuple[OutboxLane, bool]:
        """Open the lane of a new row; its start may ride along where nothing of the conversation comes before it."""
        services, shard = self._services, self._shard
        lane, reader = self.lanes.open(key), services.store.reader
        was_idle = lane.is_idle or (not content.is_bulk and is_clear(lane, reader, shard.number))
        lane.arriving += 1
        delivery = services.deliveries.get(channel)
        if delivery is None or not was_idle or shard.is_stopping or (content.rich and ref_of(content.rich)):
            return lane, False
        caps = delivery.adapter.caps
        is_held = caps.block_on_uncertain and is_blocked(key, shard.number, caps, reader)
        if is_held or key in delivery.recipients.unreachable.marks:
            return lane, False
        if not delivery.line.try_take(key, is_bulk=content.is_bulk):
            return lane, False
        self._hold(delivery, content)
        lane.busy = True
        lane.paused = True
        return lane, True

    def _unreserve(self, lane: OutboxLane, row: PendingRow) -> None:
        lane.busy = False
        delivery = self._services.deliveries[row.record.channel]
        self._unhold(delivery, row.content)
        delivery.line.give_back(row.record.conversation_key)

    def _hold(self, delivery: DeliveryActor, content: OutboundContent) -> None:
        """What the line gave is lost with the shard, until the start is on disk."""
        held = self._shard.held
        held[delivery.pool] += 1
        if content.is_bulk:
            held[delivery.line.share] += 1

    def _unhold(self, delivery: DeliveryActor, content: OutboundContent) -> None:
        held = self._shard.held
        held[delivery.pool] -= 1
        if content.is_bulk:
            held[delivery.line.share] -= 1
            delivery.line.share.give_back()

    def _start(self, lane: OutboxLane, row: PendingRow) -> None:
        """Send a row whose start is on disk and whose slot is reserved."""
        delivery = self._services.deliveries[row.record.channel]
        send = Send(self._shard, lane, row, delivery)
        self._unhold(delivery, row.content)
        if self._shard.is_stopping:
            now_us = self._services.clock.wall_us()
            move = outbox_move(row.record, Release(), now_us=now_us, claim=row.record.claim)
            self.end(send, (move,), now_us=now_us)
            return
        self.sends[row.record.id] = send
        delivery.pool.start(send)

    def look(self, lane: OutboxLane) -> None:
        """See whether the lane's head can start, has to wait, or can go."""
        services = self._services
        while lane.is_ready and not services.draining:
            row, reader = lane.queue[0], services.store.reader
            record = row.record
            delivery = services.deliveries.get(record.channel)
            parked = record.state is OutboxState.UNCERTAIN and (
                record.next_attempt_at_us is None or (row.is_looked_up and row.is_parked)
            )
            idle = delivery is None or delivery.line.is_stopped or parked
            if delivery is None or idle or may_not_start(record, delivery.adapter.caps, reader):
                self.lanes.release(self.lanes.take(lane))
                continue
            if lacks_target(row, reader):
                give_up(self._shard, self, lane, row, services)
                return
            if record.conversation_key in delivery.recipients.unreachable.marks and refuse_unreachable(
                lane, delivery, self._shard, services
            ):
                return
            own = rest_us(record.next_attempt_at_us, record.wait_us, services.clock.wall_us())
            rest = 0 if lane.waited else own
            rest = max(rest, waiting_us(delivery.line.pause_left_s(record.conversation_key), record.attempts))
            if rest > 0:
                self.lanes.release(self.lanes.take(lane))
                self.back_off(lane, row, rest)
                return
            is_bulk = row.content.is_bulk
            if delivery.line.try_take(record.conversation_key, is_bulk=is_bulk):
                self._line_up(lane, delivery)
            else:
                lane.waiting = True
                delivery.line.wait(
                    record.conversation_key,
                    partial(self._granted, lane, delivery),
                    partial(self._look_again, lane),
                    is_bulk=is_bulk,
                )
            return
        self.lanes.settle(lane)

    def _look_again(self, lane: OutboxLane) -> None:
        lane.waiting = False
        if self._shard.outbox is self:
            self.look(lane)

    def _granted(self, lane: OutboxLane, delivery: DeliveryActor) -> bool:
        lane.waiting = False
        may_go = self._shard.outbox is self and not self._services.draining and lane.is_ready
        if may_go:
            self._line_up(lane, delivery)
        return may_go

    def _line_up(self, lane: OutboxLane, delivery: DeliveryActor) -> None:
        """Start the head with the next flush, or look it up first. A slot is reserved."""
        row = self.lanes.take(lane)
        self._hold(delivery, row.content)
        lane.busy = True
        if row.record.state is OutboxState.UNCERTAIN and delivery.can_look_up and not row.is_looked_up:
            send = Send(self._shard, lane, row, delivery, is_lookup=True)
            self.sends[row.record.id] = send
            self._unhold(delivery, row.content)
            delivery.pool.start(send)
            return
        self._to_start.append((lane, row))
        self._shard.flush_soon()

    def end(
        self, send: Send, moves: tuple[OutboxMove, ...], facts: tuple[Fact, ...] = (), *, now_us: int
    ) -> None:
        """Commit the end of a send or look-up together with the start of the next one of the conversation."""
        shard, lane, row = self._shard, send.lane, send.row
        after = moves[-1].after
        if is_drop(moves[-1]):
            self.lanes.drop(lane, lambda waiting: is_later_part(waiting.record, after))
            moves = (*moves, *moves_of_drop(moves[-1], self._services.store.reader, now_us=now_us))
        following = self._ride(lane, send, after) if lane.queue and lets_next_go(after) else None
        if following is None:
            send.free_slot()
            all_moves = moves
        else:
            send.holds_slot = False
            self._hold(send.delivery, following.content)
            all_moves = (*moves, following.start_move(now_us))

        def then(_: Committed) -> None:
            self.sends.pop(after.id, None)
            send.outcome_message = None  # it holds the send: a cycle
            row.record = after
            if after.status is OutboxStatus.SENT:
                self._services.counters["sent"] += 1
                self.lanes.release(row)
            else:
                self._settle(lane, row)
            if following is not None:
                following.record = all_moves[-1].after
                self._start(lane, following)
            else:
                lane.busy = False
                if lane.queue:
                    self.look(lane)
                else:
                    self.lanes.settle(lane)

        commit = changed(
            NOTHING, shard=shard.number, epoch=shard.epoch, at_us=now_us, outbox=all_moves, facts=facts
        )
        shard.submit(commit, then)

    def _ride(self, lane: OutboxLane, send: Send, after: OutboxRecord) -> PendingRow | None:
        """The next head, if its start may ride in the commit that ends the one before."""
        if self._services.draining:
            return None
        head = lane.queue[0].record
        if ref_of(lane.queue[0].content.rich) or not may_ride(head, after, send.delivery.adapter.caps):
            return None
        if head.conversation_key in send.delivery.recipients.unreachable.marks:
            return None
        is_bulk = lane.queue[0].content.is_bulk
        if not send.delivery.line.try_ride(head.conversation_key, is_bulk=is_bulk):
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
                self.back_off(lane, row, rest)
            case OutboxState.READY:
                self.lanes.put_back(lane, row)
            case _:
                self.lanes.release(row)

    def back_off(self, lane: OutboxLane, row: PendingRow, wait_us: int) -> None:
        due_us = self._services.clock.wall_us() + wait_us
        self.lanes.back_off(lane, row, due_us, keeps_head=row.is_remembered)
        due = SendDue(self._shard.epoch, lane, due_us)
        self._services.alarms.after(wait_us / 1e6, partial(self._shard.tell, due))
