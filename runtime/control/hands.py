"""What carries decisions out: through the shards where they run, by commits of its own where nobody runs them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs

from ...actors.errors import BusError, Code
from ...actors.extensions import EMPTY
from ...actors.keys import prefix_of, shard_of
from ...actors.message import BusMessage, Direction, validate_message
from ...storage.commands import (
    Commit,
    ControlDone,
    ControlPart,
    Duplicate,
    InboxPurge,
    NewInbox,
    NewOutbox,
    OutboxPurge,
    Publish,
    TimerMove,
)
from ...storage.port import Reader, Store
from ...storage.records import (
    InboxRecord,
    InboxStatus,
    OutboundContent,
    OutboxRecord,
    StoredInbox,
    StoredOutbox,
)
from ..inbox_rules import Purge as PurgeMessage
from ..inbox_rules import Requeue as RequeueMessage
from ..inbox_rules import inbox_move
from ..outbox_holds import moves_of_decision
from ..outbox_rules import OutboxEvent, outbox_move
from ..outbox_rules import Purge as PurgeSend
from ..receipt import Receipt
from ..recipients import learned_fact
from ..shard_messages import MoveSend
from ..shard_messages import Requeue as RequeueAsk
from ..timer_rules import is_declared
from .verbs import Learned

if TYPE_CHECKING:
    from ...actors.clock import Clock
    from ..services import Services

_TIMEOUT_S = 30.0
_LEASE_TRIES = 10


class StoreHands:
    """Decisions over a store whose shards nobody runs: nothing is handled, sent or recovered.

    Args:
        store: Open, and writing.
        clock: Time of the decisions.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @property
    def reader(self) -> Reader:
        """What is stored."""
        return self._store.reader

    async def requeue_message(self, row_id: int, control: ControlPart | None) -> None:
        """Send a dead or parked message through again; move `control` in the same commit.

        Raises:
            BusError: NOT_FOUND; INVALID_TRANSITION, it is not dead or parked (any more).
        """
        stored = self.message(row_id)
        move = inbox_move(stored.record, RequeueMessage(), now_us=self._clock.wall_us(), claim=None)
        shard = stored.record.shard
        await self.commit(shard, Commit(shard=shard, epoch=0, at_us=0, inbox=(move,), control=control))

    async def move_send(self, row_id: int, event: OutboxEvent, control: ControlPart | None) -> None:
        """Apply a decision to a send; move `control` in the same commit.

        Raises:
            BusError: NOT_FOUND, INVALID_TRANSITION.
        """
        record = self.send(row_id).record
        parts = self.reader.text_parts(record.channel, record.idempotency_key)
        moves = moves_of_decision(record, event, parts, now_us=self._clock.wall_us())
        shard = record.shard
        await self.commit(shard, Commit(shard=shard, epoch=0, at_us=0, outbox=moves, control=control))

    async def publish(self, message: BusMessage) -> Receipt:
        """Store a message: it is handled or sent once somebody runs the store.

        Raises:
            BusError: INVALID_MESSAGE and the like; UNKNOWN_CHANNEL, an outbound one that names no channel.
        """
        validate_message(message)
        store, now_us = self._store, self._clock.wall_us()
        home = shard_of(message.conversation_key, store.info.shard_count)
        row: NewInbox | NewOutbox
        if message.direction is Direction.OUTBOUND:
            row = NewOutbox(record=self._new_send(message, home, now_us), content=_content(message))
        else:
            record = InboxRecord(
                id=store.next_inbox_id(),
                shard=home,
                seq=0,
                topic=message.topic,
                partition=home,
                offset=0,
                channel=message.channel,
                conversation_key=message.conversation_key,
                status=InboxStatus.QUEUED,
                accepted_at_us=now_us,
            )
            key = f"topic:{message.topic}:{message.idempotency_key}"
            row = NewInbox(record=record, message=message, dedupe_key=key)
        outcome = await store.publish(Publish(row=row, at_us=now_us))
        place = outcome if isinstance(outcome, Duplicate) else None
        return Receipt(
            event_id=outcome.id,
            topic=message.topic,
            partition=home if place is None else place.partition,
            offset=outcome.offset,
            duplicate=isinstance(outcome, Duplicate),
            conflict=place is not None and place.conflict,
        )

    async def purge(
        self, shard: int, messages: list[StoredInbox], sends: list[StoredOutbox], control: ControlPart | None
    ) -> None:
        """Empty dead rows of one shard in one commit; take `control` further in it.

        Raises:
            BusError: STALE_CLAIM, one of them is not dead any more, or the record has ended: nothing is emptied.
        """
        now_us = self._clock.wall_us()
        purges: list[InboxPurge | OutboxPurge] = []
        for stored in messages:
            taken = inbox_move(stored.record, PurgeMessage(), now_us=now_us, claim=None)
            emptied = attrs.evolve(
                stored.message,
                payload=attrs.evolve(stored.message.payload, text=""),
                participant_key=None,
                extensions=EMPTY,
                raw=None,
            )
            purges.append(InboxPurge(taken, emptied))
        for row in sends:
            move = outbox_move(row.record, PurgeSend(), now_us=now_us, claim=None)
            purges.append(OutboxPurge(move, OutboundContent(text="")))
        await self.commit(shard, Commit(shard=shard, epoch=0, at_us=0, purges=tuple(purges), control=control))

    async def cancel_timer(self, timer_id: str, control: ControlDone | None) -> None:
        """Take a timer back; end `control` in the same commit.

        Raises:
            BusError: NOT_FOUND, none of this name is set; INVALID_TRANSITION, the topology declares it.
        """
        if is_declared(timer_id):
            raise BusError(
                Code.INVALID_TRANSITION,
                f"{timer_id} is declared by the bot: take it out of the topology",
                timer_id=timer_id,
            )
        for left in reversed(range(_LEASE_TRIES)):
            stored = self.reader.timer(timer_id)
            if stored is None:
                raise BusError(
                    Code.NOT_FOUND,
                    f"no timer {timer_id[:80]} is set: it has fired, was cancelled, or never was",
                    timer_id=timer_id[:80],
                )
            shard, ended = stored.record.shard, TimerMove(stored.record, None)
            commit = Commit(shard=shard, epoch=0, at_us=0, timers=(ended,), control=control)
            try:
                await self.commit(shard, commit)
                return
            except BusError as error:
                # It fired meanwhile, and stands at its next time or is gone.
                if error.code is not Code.STALE_CLAIM or not left:
                    raise

    async def forget(self, what: Learned, channel: str, name: str, control: ControlPart | None) -> None:
        """Forget that a conversation cannot be reached, or where a chat moved to; end `control` in the same commit.

        Raises:
            BusError: NOT_FOUND, the channel has learned no such thing.
        """
        fact = learned_fact(what, channel, name)
        if self.reader.fact(fact.namespace, fact.key) is None:
            raise BusError(
                Code.NOT_FOUND,
                f"channel {channel[:80]} knows no {what} {name[:80]}",
                channel=channel[:80],
                given=name[:80],
            )
        self.unlearn(what, channel, name)
        await self.commit(0, Commit(shard=0, epoch=0, at_us=0, facts=(fact,), control=control))

    def unlearn(self, what: Learned, channel: str, name: str) -> None:
        """Forget it in memory too: nobody runs the store, so there is nothing."""

    async def end(self, control: ControlDone) -> None:
        """End a control record that no other commit ends."""
        await self.commit(0, Commit(shard=0, epoch=0, at_us=0, control=control))

    def message(self, row_id: int) -> StoredInbox:
        """One stored message.

        Raises:
            BusError: NOT_FOUND.
        """
        stored = self.reader.inbox(row_id)
        if stored is None:
            raise BusError(Code.NOT_FOUND, f"there is no message in-{row_id}", row_id=row_id)
        return stored

    def send(self, row_id: int) -> StoredOutbox:
        """One stored send.

        Raises:
            BusError: NOT_FOUND.
        """
        stored = self.reader.outbox(row_id)
        if stored is None:
            raise BusError(Code.NOT_FOUND, f"there is no send out-{row_id}", row_id=row_id)
        return stored

    def epoch(self, shard: int) -> int:
        """The lease to commit under."""
        return self._store.epochs[shard]

    async def commit(self, shard: int, commit: Commit) -> None:
        """Commit now, under the shard's lease as it is; a shard that restarts meanwhile has another one."""
        for left in reversed(range(_LEASE_TRIES)):
            now_us = self._clock.wall_us()
            try:
                await self._store.commit(attrs.evolve(commit, epoch=self.epoch(shard), at_us=now_us))
                return
            except BusError as error:
                if error.code is not Code.FENCED or not left:
                    raise

    def _new_send(self, message: BusMessage, home: int, now_us: int) -> OutboxRecord:
        if message.channel is None:
            raise BusError(
                Code.UNKNOWN_CHANNEL,
                "nobody runs the store, so the message itself must name its channel",
                prefix=prefix_of(message.conversation_key),
            )
        return OutboxRecord(
            id=self._store.next_outbox_id(),
            shard=home,
            seq=0,
            channel=message.channel,
            idempotency_key=message.idempotency_key,
            part=0,
            conversation_key=message.conversation_key,
            created_at_us=now_us,
            updated_at_us=now_us,
        )


class LiveHands(StoreHands):
    """Decisions beside running shards: what lanes hold is decided by the shard that owns them.

    Args:
        services: The runtime's parts.
        publish: Publishes a checked message; it takes no token.
    """

    def __init__(self, services: Services, publish: Callable[[BusMessage], Awaitable[Receipt]]) -> None:
        super().__init__(services.store, services.clock)
        self._services = services
        self._publish = publish

    async def requeue_message(self, row_id: int, control: ControlPart | None) -> None:
        """See `StoreHands.requeue_message`."""
        shard = self._services.shards[self.message(row_id).record.shard]
        await shard.ref.ask(partial(RequeueAsk, row_id, control=control), timeout_s=_TIMEOUT_S)

    async def move_send(self, row_id: int, event: OutboxEvent, control: ControlPart | None) -> None:
        """See `StoreHands.move_send`."""
        shard = self._services.shards[self.send(row_id).record.shard]
        await shard.ref.ask(partial(MoveSend, row_id, event, control=control), timeout_s=_TIMEOUT_S)

    def unlearn(self, what: Learned, channel: str, name: str) -> None:
        """See `StoreHands.unlearn`."""
        delivery = self._services.deliveries.get(channel)
        if delivery is not None:
            delivery.recipients.forget(what, name)

    async def publish(self, message: BusMessage) -> Receipt:
        """See `StoreHands.publish`; here a message that nobody handles is refused."""
        validate_message(message)
        return await self._publish(message)

    def epoch(self, shard: int) -> int:
        """The lease that the shard has now."""
        return self._services.shards[shard].epoch


def _content(message: BusMessage) -> OutboundContent:
    return OutboundContent(
        text=message.payload.text,
        reply_to=message.payload.reply_to,
        correlation_id=message.correlation_id,
        hops=message.hops,
    )


__all__ = ["LiveHands", "StoreHands"]
