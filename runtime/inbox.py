"""Accepting messages: token, order, one commit. The only way in from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..actors.errors import BusError, Code
from ..actors.keys import shard_of
from ..actors.message import BusMessage
from ..storage.commands import Claim, Duplicate, Fact, NewInbox, Outcome, Publish, Refused, Stored
from ..storage.records import InboxRecord, InboxStatus
from .inbox_rules import accepted
from .shard_messages import Accepted
from .topic_handler import is_in_turn
from .turn import QueuedRow

if TYPE_CHECKING:
    from .services import Services
    from .shard import ShardActor


UNKNOWN_TOPIC = "channel.unknown"
"""What an adapter cannot express: stored and parked, visible and never lost."""


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
    ) -> Stored | Duplicate:
        """Store a message and return after the commit.

        Args:
            message: A message that keeps every rule.
            dedupe_key: Names it once for its home.
            timeout_s: Seconds to wait for a token; None waits as long as it takes, 0 not at all.
            facts: Stored in the same commit.
        Raises:
            BusError: NO_SUBSCRIBER, INVALID_TOPIC; QUEUE_FULL, by `timeout_s` alone; BUS_CLOSED; STORE_FULL,
                STORE_BUSY, STORE_IO: not stored, or (STORE_IO) not known.
        """
        services = self._services
        if services.draining:
            raise BusError(Code.BUS_CLOSED, "the runtime is stopping")
        # Cancelled before the hand-over, nothing is stored: with a token free nothing below would wait until then.
        await trio.lowlevel.checkpoint_if_cancelled()
        status = self._status(message)
        home = shard_of(message.conversation_key, services.store.info.shard_count)
        shard = services.shards[home]
        holds_token = status is InboxStatus.QUEUED and not is_in_turn()
        holds_token = holds_token and shard.inbox.lanes.may_hold_token(message.conversation_key)
        if holds_token and not services.tokens.try_take():
            await services.tokens.take(timeout_s)
        at_us = services.clock.wall_us()
        record = InboxRecord(
            id=services.store.next_inbox_id(),
            shard=home,
            seq=0,
            topic=message.topic,
            partition=home,
            offset=0,
            channel=message.channel,
            conversation_key=message.conversation_key,
            status=status,
            accepted_at_us=at_us,
        )
        row = QueuedRow(record, message, holds_token=holds_token)
        accept = _Accept(shard, row, services.store.info.instance)
        with_claim = status is InboxStatus.QUEUED and shard.inbox.offer(record, holds_token=holds_token)
        accept.with_claim = with_claim
        part = Publish(
            row=NewInbox(record=record, message=message, dedupe_key=dedupe_key),
            at_us=at_us,
            claim=Claim(home, shard.epoch) if with_claim else None,
            facts=facts,
        )
        services.store.submit(part, accept.settle)
        outcome = await accept.wait()
        if isinstance(outcome, Stored | Duplicate):
            services.count("accepted" if isinstance(outcome, Stored) else "duplicates")
            return outcome
        if isinstance(outcome, Refused):
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


class _Accept:
    """One publish on its way through the journal. Once handed over it cannot be cancelled: the wait is shielded."""

    __slots__ = ("_epoch", "_instance", "_outcome", "_row", "_shard", "_task", "with_claim")

    def __init__(self, shard: ShardActor, row: QueuedRow, instance: int) -> None:
        self._shard = shard
        self._row = row
        self._instance = instance
        self._epoch = shard.epoch
        self._outcome: Outcome | None = None
        self._task: trio.lowlevel.Task | None = None
        self.with_claim = False

    def settle(self, outcome: Outcome) -> None:
        """Tell the shard, then the publisher."""
        row = self._row
        # A parked row enters no lane.
        if row.record.status is not InboxStatus.PARKED:
            if isinstance(outcome, Stored):
                epoch = self._instance if outcome.claimed else None
                row.record = accepted(row.record, seq=outcome.seq, offset=outcome.offset, epoch=epoch)
            self._shard.tell_accepted(Accepted(row, self._epoch, self.with_claim, outcome))
        self._outcome = outcome
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)

    async def wait(self) -> Outcome:
        """The outcome, as soon as the journal has it."""
        if self._outcome is None:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        if self._outcome is None:
            raise AssertionError("woken without an outcome")
        return self._outcome
