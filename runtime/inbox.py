"""Accepting messages: token, order, one commit. The only way in from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..actors.errors import BusError, Code
from ..actors.keys import shard_of
from ..actors.message import BusMessage
from ..actors.value import changed
from ..storage.commands import Duplicate, Fact, NewInbox, Outcome, Publish, Refused, Stored
from ..storage.records import InboxRecord, InboxStatus
from .argument_checks import check_timeout
from .channel import UNKNOWN_TOPIC
from .shard_messages import Accepted
from .topic_handler import is_in_turn
from .transition import failure
from .turn import QueuedRow

if TYPE_CHECKING:
    from .services import Services
    from .shard import ShardActor


_ROW = InboxRecord(
    id=0,
    shard=0,
    seq=0,
    topic="",
    partition=0,
    offset=0,
    channel=None,
    conversation_key="",
    status=InboxStatus.QUEUED,
)


class Inbox:
    """Takes validated messages in. It is no task of its own: the order is the journal's, the wait the publisher's.

    Args:
        services: The runtime's parts.
        park_unhandled: Store a message that no handler takes as parked, instead of refusing it.
    """

    def __init__(self, services: Services, *, park_unhandled: bool) -> None:
        self._services = services
        self._park_unhandled = park_unhandled

    async def accept(
        self,
        message: BusMessage,
        *,
        dedupe_key: str,
        timeout_s: float | None = None,
        facts: tuple[Fact, ...] = (),
        takes_token: bool = True,
        refusal: BusError | None = None,
    ) -> Stored | Duplicate:
        """Store a message and return after the commit.

        Args:
            message: A message that keeps every rule.
            dedupe_key: Names it once for its home.
            timeout_s: Seconds to wait for room in the store, and for a token; None waits as long as it takes, 0 not at
                all.
            facts: Stored in the same commit.
            takes_token: False for control records: one that waited would hold up all behind it.
            refusal: Why the message is not handled: it is stored as refused, whatever its topic, for people to see.
        Raises:
            BusError: NO_SUBSCRIBER, INVALID_TOPIC; QUEUE_FULL, by `timeout_s`, or its conversation is full;
                BUS_CLOSED; STORE_FULL, STORE_BUSY, STORE_IO: not stored, or (STORE_IO) not known.
        """
        services = self._services
        if services.draining:
            raise BusError(Code.BUS_CLOSED, "the runtime is stopping")
        if timeout_s is not None:
            check_timeout(timeout_s)
        # Cancelled before the hand-over, nothing is stored: with a token free nothing below would wait until then.
        await trio.lowlevel.checkpoint_if_cancelled()
        handler, status = None, InboxStatus.REFUSED
        if refusal is None:
            handler = services.topology.handler_of(message.topic, message.channel)
            status = InboxStatus.QUEUED if handler is not None else self._parked(message)
        intake, key = services.intake, message.conversation_key
        shard = services.shards[shard_of(key, len(services.shards))]
        # A turn that waited for the backlog to be worked off would be part of what holds it up.
        is_outside = takes_token and not is_in_turn()
        if is_outside and intake.check_full():
            timeout_s = await intake.wait_room(timeout_s)
        holds_token = False
        if status is InboxStatus.QUEUED and not takes_token:
            # No bound holds it up, but it counts for those behind it.
            intake.count_waiting(shard.inbox.lanes, shard.number, key)
        elif status is InboxStatus.QUEUED:
            self._check_lane(shard, key, dedupe_key)
            holds_token = is_outside and shard.inbox.lanes.may_hold_token(key)
            if holds_token and not services.tokens.try_take():
                holds_token = await self._wait_token(shard, key, dedupe_key, timeout_s)
        at_us = services.clock.wall_us()
        record = changed(
            _ROW,
            id=services.store.next_inbox_id(),
            shard=shard.number,
            topic=message.topic,
            partition=shard.number,
            channel=message.channel,
            conversation_key=key,
            status=status,
            accepted_at_us=at_us,
            errors=() if refusal is None else (failure(refusal.code, refusal.message, at_us, 0),),
        )
        row = QueuedRow(record, message, holds_token=holds_token, handler=handler)
        accept = shard.inbox.offer(row) if status is InboxStatus.QUEUED else Accepted(shard, row, None)
        part = Publish(
            row=NewInbox(record=record, message=message, dedupe_key=dedupe_key),
            at_us=at_us,
            claim=shard.lease if accept.with_claim else None,
            facts=facts,
        )
        self._hand_over(part, accept)
        # Once handed over it cannot be cancelled. A closing store settles it at once.
        if accept.outcome is None:
            accept.task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(_shielded)
        return self._counted(accept.outcome, is_refused=refusal is not None)

    def _check_lane(self, shard: ShardActor, key: str, dedupe_key: str) -> None:
        """Refuse a message whose conversation is full, unless it is there already: a repeat is told so."""
        services = self._services
        has_room = services.intake.has_room(shard.inbox.lanes, shard.number, key)
        if not has_room and not services.store.reader.has_inbox(dedupe_key):
            raise services.intake.lane_is_full(key)

    async def _wait_token(
        self, shard: ShardActor, key: str, dedupe_key: str, timeout_s: float | None
    ) -> bool:
        """Wait for a token; answers whether the conversation may hold it still, else it is free again."""
        services = self._services
        await self._take_token(timeout_s)
        try:
            # Meanwhile others of the conversation may have come as far.
            self._check_lane(shard, key, dedupe_key)
        except BusError:
            services.tokens.give_back()
            raise
        if shard.inbox.lanes.may_hold_token(key):
            return True
        services.tokens.give_back()
        return False

    async def _take_token(self, timeout_s: float | None) -> None:
        """Wait for a token while the store has room: as many may wait for one as like, and would all pass its bound."""
        tokens, intake = self._services.tokens, self._services.intake
        due_s = None if timeout_s is None else trio.current_time() + timeout_s
        await tokens.take(timeout_s)
        while intake.check_full():
            tokens.give_back()
            await intake.wait_room(None if due_s is None else due_s - trio.current_time())
            await tokens.take(None if due_s is None else due_s - trio.current_time())

    def _hand_over(self, part: Publish, accept: Accepted) -> None:
        services = self._services
        services.intake.handed += 1
        try:
            services.store.submit(part, accept.settle)
        except Exception:
            # Not handed over: what was reserved for it goes back, as after a refusal.
            accept.settle(Refused(BusError(Code.BUS_CLOSED, "the store did not take it")))
            raise

    def _counted(self, outcome: Outcome | None, *, is_refused: bool) -> Stored | Duplicate:
        """Count what became of a message, or raise its refusal."""
        services, pause = self._services, self._services.intake.store
        if isinstance(outcome, Stored):
            if is_refused:
                services.count("refused")
                services.count("refused_stored")
            else:
                services.counters["accepted"] += 1
        elif isinstance(outcome, Duplicate):
            services.count("duplicates")
        else:
            raise self._refusal(outcome)
        if pause.code is not None:
            pause.stored()
        return outcome

    def _refusal(self, outcome: Outcome | None) -> BusError:
        if isinstance(outcome, Refused):
            self._services.intake.store.refused(outcome.error.code)
            return outcome.error
        raise AssertionError("a publish settles as stored, duplicate or refused")

    def _parked(self, message: BusMessage) -> InboxStatus:
        """Refuse what no handler takes, unless it is to be parked."""
        if self._park_unhandled or message.topic == UNKNOWN_TOPIC:
            return InboxStatus.PARKED
        self._services.topology.check_conversation_topic(message.topic)
        raise BusError(
            Code.NO_SUBSCRIBER,
            f"no handler of topic {message.topic} takes channel {message.channel}; "
            f"{self._services.topology.list_handlers()}",
            topic=message.topic,
            channel=message.channel,
        )


def _shielded(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
