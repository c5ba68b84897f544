"""Accepting messages: token, order, one commit. The only way in from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..actors.errors import BusError, Code
from ..actors.keys import shard_of
from ..actors.message import BusMessage
from ..actors.value import changed
from ..storage.commands import Claim, Duplicate, Fact, NewInbox, Publish, Refused, Stored
from ..storage.records import InboxRecord, InboxStatus
from .channel import UNKNOWN_TOPIC
from .shard_messages import Accepted
from .topic_handler import is_in_turn
from .transition import failure
from .turn import QueuedRow

if TYPE_CHECKING:
    from .services import Services


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
        services, store = self._services, self._services.store
        if services.draining:
            raise BusError(Code.BUS_CLOSED, "the runtime is stopping")
        # Cancelled before the hand-over, nothing is stored: with a token free nothing below would wait until then.
        await trio.lowlevel.checkpoint_if_cancelled()
        status = InboxStatus.REFUSED if refusal is not None else self._status(message)
        home = shard_of(message.conversation_key, store.info.shard_count)
        shard = services.shards[home]
        intake, key = services.intake, message.conversation_key
        # A turn that waited for the backlog to be worked off would be part of what holds it up.
        is_outside = takes_token and not is_in_turn()
        if is_outside and intake.check_full():
            timeout_s = await intake.wait_room(timeout_s)
        holds_token = takes_token and status is InboxStatus.QUEUED
        if holds_token:
            if not intake.has_room(shard.inbox.lanes, home, key):
                raise intake.lane_is_full(key)
            holds_token = is_outside and shard.inbox.lanes.may_hold_token(key)
            if holds_token and not services.tokens.try_take():
                await services.tokens.take(timeout_s)
                if not intake.has_room(shard.inbox.lanes, home, key):
                    # Filled by others meanwhile.
                    services.tokens.give_back()
                    raise intake.lane_is_full(key)
        at_us = services.clock.wall_us()
        record = changed(
            _ROW,
            id=store.next_inbox_id(),
            shard=home,
            topic=message.topic,
            partition=home,
            channel=message.channel,
            conversation_key=message.conversation_key,
            status=status,
            accepted_at_us=at_us,
            errors=() if refusal is None else (failure(refusal.code, refusal.message, at_us, 0),),
        )
        row = QueuedRow(record, message, holds_token=holds_token)
        with_claim = status is InboxStatus.QUEUED and shard.inbox.offer(row)
        accept = Accepted(shard, row, instance=store.info.instance, with_claim=with_claim)
        part = Publish(
            row=NewInbox(record=record, message=message, dedupe_key=dedupe_key),
            at_us=at_us,
            claim=Claim(home, shard.epoch) if with_claim else None,
            facts=facts,
        )
        intake.handed += 1
        try:
            store.submit(part, accept.settle)
        except Exception:
            # Not handed over: what was reserved for it goes back, as after a refusal.
            accept.settle(Refused(BusError(Code.BUS_CLOSED, "the store did not take it")))
            raise
        # Once handed over it cannot be cancelled. A closing store settles it at once.
        if accept.outcome is None:
            accept.task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(_shielded)
        outcome = accept.outcome
        if isinstance(outcome, Stored | Duplicate):
            intake.store.stored()
            if refusal is not None and isinstance(outcome, Stored):
                services.count("refused")
                services.count("refused_stored")
            else:
                services.count("accepted" if isinstance(outcome, Stored) else "duplicates")
            return outcome
        if isinstance(outcome, Refused):
            intake.store.refused(outcome.error.code)
            raise outcome.error
        raise AssertionError("a publish settles as stored, duplicate or refused")

    def _status(self, message: BusMessage) -> InboxStatus:
        topology = self._services.topology
        if topology.handler_of(message.topic, message.channel) is not None:
            return InboxStatus.QUEUED
        if self._park_unhandled or message.topic == UNKNOWN_TOPIC:
            return InboxStatus.PARKED
        topology.check_conversation_topic(message.topic)
        raise BusError(
            Code.NO_SUBSCRIBER,
            f"no handler of topic {message.topic} takes channel {message.channel}",
            topic=message.topic,
            channel=message.channel,
        )


def _shielded(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED
