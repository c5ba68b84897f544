"""The inbound side of one shard: from an accepted message to the end of its turn."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..actors.errors import BusError
from ..actors.value import changed
from ..storage.commands import NOTHING, Committed, InboxMove, StateWrite, Stored
from ..storage.records import InboxRecord, InboxStatus
from .admission import refusal_of
from .albums import albums_of, follow, put_back, rest_moves
from .backlog import InboxBacklog
from .heads import head_rest_us, may_ride
from .held_lanes import HeldLanes
from .inbox_rules import Claim, Defer, Done, Fail, InboxEvent, Park, Release, done_move, inbox_move
from .lane import Lane
from .lane_state import recall, remember
from .lanes import Lanes
from .pool import WorkerPool
from .shard_messages import Accepted, MessageDue, TurnEnded
from .turn import QueuedRow, Turn
from .turn_end import failed_turn, time_limit_error
from .turn_plan import Planned

if TYPE_CHECKING:
    from .services import Services
    from .shard import ShardActor

InboxLane = Lane[QueuedRow]
TurnPool = WorkerPool[Turn]
_DONE = Done()
_STAYING = (Fail, Release, Defer)


class ShardInbox:
    """Lanes, claims and turns of one shard. Every method runs on the shard's own messages, but for `offer`."""

    def __init__(self, shard: ShardActor, services: Services) -> None:
        self._shard = shard
        self._services = services
        self.lanes: Lanes[QueuedRow] = Lanes(
            InboxBacklog(services.store.reader, shard.number),
            window_rows=services.window_rows,
            lane_tokens=services.tokens.lane_share,
        )
        self._held = HeldLanes(shard, self.lanes, services, self._free_token)
        self._albums = albums_of(self.lanes, services, self._free_token)
        self.turns: set[Turn] = set()
        self.tokens_held = 0
        self._to_claim: list[tuple[InboxLane, QueuedRow]] = []
        self._blocked: list[InboxLane] = []

    def offer(self, row: QueuedRow) -> Accepted:
        """Announce a message that is about to be handed to the journal; answers with whether its claim rides along.

        It does where its turn can start the moment it is stored: the lane is idle, nothing older is on disk, and a
        slot of its topic is free, which is then reserved.
        """
        services, shard, record = self._services, self._shard, row.record
        lane = self.lanes.open(record.conversation_key)
        accept = Accepted(shard, row, lane)
        was_idle = lane.is_idle
        lane.arriving += 1
        if row.holds_token:
            lane.tokens += 1
            self.tokens_held += 1
        is_open = was_idle and services.gate.is_open and not services.draining
        if is_open and (self._albums is None or not self._albums.is_part(row)):
            pool = services.topics[record.topic].pool
            if pool.try_reserve():
                shard.held[pool] += 1
                lane.busy = lane.paused = accept.with_claim = True
        shard.offers.add(accept)
        return accept

    def accepted(self, message: Accepted) -> None:
        """The journal has settled what was offered."""
        row, outcome, lane = message.row, message.outcome, message.lane
        if lane is None:
            raise AssertionError("what enters no lane is not told")
        lane.arriving -= 1
        if message.with_claim:
            if isinstance(outcome, Stored) and outcome.claimed:
                if lane.has_older:
                    self._hand_back(lane, row)
                    return
                self.lanes.begin(lane, row)
                self._start(lane, row)
                return
            lane.busy = False
            self.lanes.resume(lane)
            self._give_back(self._services.topics[row.record.topic].pool)
        if not isinstance(outcome, Stored) or self.lanes.arrive(lane.key, row) is None:
            self._free_token(lane, row)
        self._look(lane)

    def _hand_back(self, lane: InboxLane, row: QueuedRow) -> None:
        """Another home stored rows of the conversation before this one: they go first, so the claim goes back."""
        self.lanes.yield_place(lane)
        self.lanes.note(lane, row.seq)
        lane.arriving += 1  # it waits again, while the lane is still paused for it
        self._give_back(self._services.topics[row.record.topic].pool)
        self._free_token(lane, row)
        record, now_us = row.record, self._services.clock.wall_us()
        move = inbox_move(record, Release(), now_us=now_us, claim=record.claim)

        def then(_: Committed) -> None:
            lane.arriving -= 1
            lane.busy = False
            self.lanes.resume(lane)
            self._look(lane)

        self._shard.submit_moves(inbox=(move,), then=then)

    def missed(self, message: Accepted) -> None:
        """What was offered is settled, and nobody will be told: a row that was stored stays on disk."""
        row, lane = message.row, self.lanes.open(message.row.record.conversation_key)
        lane.arriving -= 1
        self._free_token(lane, row)
        if isinstance(message.outcome, Stored):
            self.lanes.miss(lane.key, row.seq)
        self.lanes.settle(lane)

    def arrived(self, row: QueuedRow) -> None:
        """An emit or a requeue has stored a row of this shard."""
        lane = self.lanes.arrive(row.record.conversation_key, row)
        if lane is not None:
            self._look(lane)

    @property
    def wants_flush(self) -> bool:
        """Whether the store has rows that the window has room for."""
        return self.lanes.can_refill(scan=self._services.gate.is_open) and not self._services.draining

    def refill(self) -> None:
        """Read what the window has room for; lanes that the gate held back look again once it is open."""
        if self._services.draining:
            self._unclaim()
            return
        if self._blocked:
            blocked, self._blocked = self._blocked, []
            for lane in blocked:
                lane.waiting = False
                self._look(lane)
        for lane in self.lanes.refill(scan=self._services.gate.is_open):
            self._look(lane)

    def claims(self, now_us: int) -> list[InboxMove]:
        """The claims to commit now; `claimed` goes on with them."""
        claim = Claim(self._shard.instance, waited=True)
        return [
            inbox_move(part.record, claim, now_us=now_us, claim=None)
            for _, row in self._to_claim
            for part in (row, *row.rest)
        ]

    def take_claimed(self) -> list[tuple[InboxLane, QueuedRow]]:
        """The rows of `claims`, which are no longer waiting to be claimed."""
        rows, self._to_claim = self._to_claim, []
        return rows

    def claimed(self, rows: list[tuple[InboxLane, QueuedRow]], moves: list[InboxMove]) -> None:
        """The claims are on disk: start the turns."""
        after = iter(moves)
        for lane, row in rows:
            for part in (row, *row.rest):
                part.record = next(after).after
            self._start(lane, row)

    def _unclaim(self) -> None:
        for lane, row in self.take_claimed():
            put_back(self.lanes, lane, row)
            lane.busy = False
            self._give_back(self._services.topics[row.record.topic].pool)

    def due(self, message: MessageDue) -> None:
        """A lane's back-off is over."""
        if message.lane.due_us == message.due_us:
            self.lanes.wake(message.lane)
            self._look(message.lane)

    def turn_ended(self, message: TurnEnded) -> None:
        """A handler has ended: commit what it decided, or what its failure means."""
        turn = message.turn
        if message.cancelled:
            self._end(turn, Release())
        elif message.timed_out:
            self._fail(turn, time_limit_error(turn.timeout_s, message.error))
        elif message.error is not None:
            self._fail(turn, message.error)
        else:
            try:
                self._complete(turn)
            except BusError as error:
                self._fail(turn, error)

    def _complete(self, turn: Turn) -> None:
        context = turn.context
        if context is None:
            raise AssertionError("a turn that ended well has a context")
        write, effects = context.state_write, context.effects
        planned = self._shard.outbox.plan(turn.row, effects) if effects else None
        self._end(turn, _DONE, planned, () if write is None else (write,))

    def _fail(self, turn: Turn, error: BaseException) -> None:
        self._end(turn, failed_turn(turn, error, self._services))

    def _end(
        self,
        turn: Turn,
        event: InboxEvent,
        planned: Planned | None = None,
        state: tuple[StateWrite, ...] = (),
    ) -> None:
        """Commit the end of a turn together with its effects and the claim of the lane's next head."""
        shard, lane = self._shard, turn.lane
        services = self._services
        now_us, record = services.clock.wall_us(), turn.row.record
        if event is _DONE:
            move = done_move(record, now_us=now_us)
        else:
            move = inbox_move(record, event, now_us=now_us, claim=record.claim)
        rest = rest_moves(turn.row, event, now_us=now_us) if turn.row.rest else ()
        self.turns.discard(turn)
        following = None
        claim: InboxMove | None = None
        if turn.holds_slot:
            turn.holds_slot = False
            pool, head = turn.topic.pool, lane.queue[0] if lane.queue else None
            if head and not isinstance(event, _STAYING) and may_ride(head, pool, services, self._albums):
                following = self.lanes.take(lane)
                claimed = Claim(shard.instance, waited=True)
                claim = inbox_move(following.record, claimed, now_us=now_us, claim=None)
                shard.held[pool] += 1
            else:
                pool.give_back()
        commit = changed(
            NOTHING,
            shard=shard.number,
            epoch=shard.epoch,
            at_us=now_us,
            inbox=(move, *rest) if claim is None else (move, *rest, claim),
            new_outbox=planned.new_outbox if planned else (),
            emits=planned.emits if planned else (),
            timers=planned.timers if planned else (),
            state=state,
        )

        def then(committed: Committed) -> None:
            turn.row.record = after = move.after
            if rest:
                follow(turn.row, rest)
            if state:
                remember(lane, state[0])
            self._settle_turn(turn, after)
            if planned is not None:
                shard.outbox.placed(planned, committed)
            if following is not None and claim is not None:
                following.record = claim.after
                self._start(lane, following)
            else:
                lane.busy = False
                self._look(lane)

        def refused(error: BusError) -> None:
            if following is not None:
                self.lanes.put_back(lane, following)
                self._give_back(turn.topic.pool)
            if planned is not None:
                shard.outbox.unplanned(planned)
            self._fail(turn, error)

        shard.submit(commit, then, refused if planned is not None else None)

    def _settle_turn(self, turn: Turn, after: InboxRecord) -> None:
        lane, row, services = turn.lane, turn.row, self._services
        if not services.gate.is_open:
            services.gate.leave(after.id)
        if self._albums is not None:
            self._albums.settle(lane, row, after.status)
        if after.status is InboxStatus.QUEUED:
            self.lanes.put_back(lane, row)
            return
        self.lanes.release(row)
        self._free_token(lane, row)
        if turn.is_deferred and turn.breaker is not None:
            lane.busy = False
            self._held.hold(lane, row.seq, turn.breaker)
        elif after.status is InboxStatus.FAILED:
            self._back_off(lane, row, after.wait_us or 0)
        elif after.status is InboxStatus.DONE:
            services.counters["handled"] += 1

    def _back_off(self, lane: InboxLane, row: QueuedRow, wait_us: int) -> None:
        due_us = self._services.clock.wall_us() + wait_us
        for dropped in self.lanes.back_off(lane, row, due_us):
            self._free_token(lane, dropped)
        due = MessageDue(self._shard.epoch, lane, due_us)
        self._services.alarms.after(wait_us / 1e6, partial(self._shard.tell, due))

    def _start(self, lane: InboxLane, row: QueuedRow) -> None:
        """Start the turn of a row whose claim is on disk and whose slot is reserved."""
        services, shard, record = self._services, self._shard, row.record
        topic = services.topics[record.topic]
        handler = row.handler or services.topology.handler_of(record.topic, record.channel)
        if handler is None:
            raise AssertionError("only rows with a handler are claimed")
        turn = Turn(
            shard,
            lane,
            row,
            topic=topic,
            handler=handler,
            stored_state=recall(lane, services.store.reader),
        )
        shard.held[topic.pool] -= 1
        refusal = Release() if shard.is_stopping else refusal_of(turn, services)
        if refusal is not None:
            self._end(turn, refusal)
            return
        self.turns.add(turn)
        topic.pool.start(turn)

    def _look(self, lane: InboxLane) -> None:
        """See whether the lane's head can start, has to wait, or can go."""
        services = self._services
        if not lane.is_ready or services.draining:
            self.lanes.settle(lane)
            return
        row, record = lane.queue[0], lane.queue[0].record
        if (handler := services.topology.handler_of(record.topic, record.channel)) is None:
            self._park(lane)
            return
        if (rest := head_rest_us(row, services, self._albums)) > 0 and not lane.waited:
            self.lanes.release(self.lanes.take(lane))
            self._free_token(lane, row)
            self._back_off(lane, row, rest)
            return
        topic = services.topics[record.topic]
        breaker = topic.breakers.get(handler.channel)
        if breaker is not None and services.gate.is_open and not breaker.passes():
            self._held.hold(lane, row.seq, breaker)
            return
        pool = topic.pool
        if pool.try_reserve():
            self._shard.held[pool] += 1
            self._line_up(lane, pool)
        else:
            lane.waiting = True
            pool.reserve_later(partial(self._granted, lane, pool))

    def _granted(self, lane: InboxLane, pool: TurnPool) -> bool:
        lane.waiting = False
        if self._shard.inbox is not self or self._services.draining or not lane.is_ready:
            return False
        self._shard.held[pool] += 1
        self._line_up(lane, pool)
        return True

    def _line_up(self, lane: InboxLane, pool: TurnPool) -> None:
        """Put the head among the rows to claim with the next flush. A slot is reserved."""
        gate = self._services.gate
        if not gate.enter(lane.queue[0].record.id):
            self._give_back(pool)
            lane.waiting = True
            self._blocked.append(lane)
            return
        lane.busy = True
        row = self.lanes.take(lane)
        self._to_claim.append((lane, row if self._albums is None else self._albums.gather(lane, row)))
        self._shard.flush_soon()

    def _park(self, lane: InboxLane) -> None:
        """Put a row aside whose handler has vanished, so that its conversation goes on."""
        row = self.lanes.take(lane)
        lane.busy = True
        move = inbox_move(row.record, Park(), now_us=self._services.clock.wall_us(), claim=None)
        self._services.log.warning("message.parked", message_id=row.message.id, topic=row.record.topic)

        def then(_: Committed) -> None:
            self.lanes.release(row)
            self._free_token(lane, row)
            lane.busy = False
            self._services.gate.leave(row.record.id)
            self._look(lane)

        self._shard.submit_moves(inbox=(move,), then=then)

    def _give_back(self, pool: TurnPool) -> None:
        self._shard.held[pool] -= 1
        pool.give_back()

    def _free_token(self, lane: InboxLane, row: QueuedRow) -> None:
        if row.holds_token:
            row.holds_token = False
            lane.tokens -= 1
            self.tokens_held -= 1
            self._services.tokens.give_back()
