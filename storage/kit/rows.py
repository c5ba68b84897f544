"""Builders for what is handed to a store, and what a shard would do with the answers."""

from __future__ import annotations

import attrs

from ...actors.envelope import MessageEnvelope
from ...actors.event import Event
from ...actors.extensions import Extensions
from ...actors.keys import shard_of
from ...actors.message import BusMessage, Direction
from ...actors.plain import Plain
from ..commands import (
    Claim,
    Commit,
    ControlPart,
    DropTimer,
    Emit,
    EmitNumber,
    Fact,
    InboxMove,
    InboxPurge,
    InTurn,
    NewEvent,
    NewInbox,
    NewOutbox,
    NewRow,
    NewTimer,
    OutboxMove,
    OutboxPurge,
    Publish,
    StateWrite,
    Stored,
    TimerWrite,
)
from ..port import Store
from ..records import (
    Failure,
    InboxRecord,
    InboxStatus,
    OutboundContent,
    OutboxRecord,
    OutboxStatus,
    TimerContent,
    TimerRecord,
)

TOPIC = "chat.message"
AT_US = 1_760_000_000_000_000

_ID = "0194f5c0-8f6e-7000-8000-000000000001"
_SESSION = "0194f5c0-8f6e-7d9d-a4d7-6d8d4f35f456"


def make_chat(key: str, number: int, text: str = "hi") -> BusMessage:
    """Message `number` of a conversation."""
    return BusMessage(
        id=_ID,
        direction=Direction.INBOUND,
        channel="telegram",
        topic=TOPIC,
        conversation_key=key,
        participant_key="tg:7000000001",
        idempotency_key=f"telegram:{key}:{number}",
        correlation_id=_ID,
        payload=MessageEnvelope(
            message_id="11", text=text, sent_at="2026-02-16T11:12:00Z", session_id=_SESSION
        ),
        created_at_us=AT_US,
        extensions=Extensions(platform_message_id="7000000001:11", from_user_id="7000000001"),
        raw=b"{}",
    )


@attrs.frozen
class Hand:
    """Makes parts for one open store; keys decide the shard, as in the runtime."""

    store: Store

    def shard(self, key: str) -> int:
        return shard_of(key, self.store.info.shard_count)

    def new_inbox(
        self,
        key: str,
        number: int,
        *,
        text: str = "hi",
        topic: str = TOPIC,
        status: InboxStatus = InboxStatus.QUEUED,
    ) -> NewInbox:
        shard = self.shard(key)
        record = InboxRecord(
            id=self.store.next_inbox_id(),
            shard=shard,
            seq=0,
            topic=topic,
            partition=shard,
            offset=0,
            channel="telegram",
            conversation_key=key,
            status=status,
            accepted_at_us=AT_US,
        )
        return NewInbox(
            record=record, message=make_chat(key, number, text), dedupe_key=f"in:telegram:{key}:{number}"
        )

    def new_outbox(
        self,
        key: str,
        name: str,
        *,
        part: int = 0,
        text: str = "answer",
        started: bool = False,
        seq: int = 0,
        inbox_id: int | None = None,
    ) -> NewOutbox:
        record = OutboxRecord(
            id=self.store.next_outbox_id(),
            shard=self.shard(key),
            seq=seq,
            channel="telegram",
            idempotency_key=name,
            part=part,
            conversation_key=key,
            in_flight=started,
            claim=int(started),
            attempts=int(started),
            created_at_us=AT_US,
            updated_at_us=AT_US,
            last_attempt_at_us=AT_US if started else None,
        )
        return NewOutbox(record=record, content=OutboundContent(text=text, inbox_id=inbox_id))

    def new_event(
        self,
        topic: str,
        number: int,
        *,
        partition: int = 0,
        payload: Plain = None,
        dedupe_key: str | None = None,
        key: str | None = None,
    ) -> NewEvent:
        event = Event(
            id=_ID,
            ts_us=AT_US,
            topic=topic,
            key=key,
            payload=number if payload is None else payload,
        )
        return NewEvent(
            id=self.store.next_event_id(),
            shard=partition % self.store.info.shard_count,
            partition=partition,
            event=event,
            dedupe_key=dedupe_key,
        )

    def new_timer(
        self, timer_id: str, key: str, due_us: int, *, wait_us: int | None = None, replaces: bool = False
    ) -> NewTimer:
        shard = self.shard(key)
        record = TimerRecord(
            id=timer_id,
            shard=shard,
            kind="message",
            topic=TOPIC,
            partition=shard,
            conversation_key=key,
            due_at_us=due_us,
            wait_us=wait_us,
            created_at_us=AT_US,
        )
        return NewTimer(record=record, content=TimerContent(payload="hi", hops=1), replaces=replaces)

    def publish(
        self,
        row: NewRow,
        *,
        claim: bool = False,
        epoch: int | None = None,
        facts: tuple[Fact, ...] = (),
        at_us: int = AT_US,
    ) -> Publish:
        asked: Claim | None = None
        if claim and isinstance(row, NewInbox | NewOutbox):
            shard = row.record.shard
            asked = Claim(shard, self.store.epochs[shard] if epoch is None else epoch)
        return Publish(row=row, at_us=at_us, claim=asked, facts=facts)

    def commit(
        self,
        shard: int,
        *,
        epoch: int | None = None,
        at_us: int = AT_US,
        inbox: tuple[InboxMove, ...] = (),
        outbox: tuple[OutboxMove, ...] = (),
        new_outbox: tuple[NewOutbox, ...] = (),
        state: tuple[StateWrite, ...] = (),
        emits: tuple[Emit, ...] = (),
        relayed: tuple[EmitNumber, ...] = (),
        facts: tuple[Fact, ...] = (),
        purges: tuple[InboxPurge | OutboxPurge, ...] = (),
        control: ControlPart | None = None,
        turn: InTurn | None = None,
        timers: tuple[TimerWrite, ...] = (),
        arrivals: tuple[NewInbox | NewEvent, ...] = (),
    ) -> Commit:
        return Commit(
            shard=shard,
            epoch=self.store.epochs[shard] if epoch is None else epoch,
            at_us=at_us,
            inbox=inbox,
            outbox=outbox,
            new_outbox=new_outbox,
            state=state,
            emits=emits,
            relayed=relayed,
            facts=facts,
            purges=purges,
            control=control,
            turn=turn,
            timers=timers,
            arrivals=arrivals,
        )

    async def set_timer(self, *writes: NewTimer | DropTimer) -> None:
        """Commit timers of one shard."""
        first = writes[0]
        shard = first.record.shard if isinstance(first, NewTimer) else first.shard
        await self.store.commit(self.commit(shard, timers=writes))

    def due(self) -> list[tuple[str, int]]:
        """All timers, by id and time."""
        found = self.store.reader.list_timers(key=None, topic=None, offset=0, limit=99)
        return [(timer.record.id, timer.record.due_at_us) for timer in found]

    async def accept(
        self, key: str, number: int, *, claim: bool = False, text: str = "hi", topic: str = TOPIC
    ) -> InboxRecord:
        """Accept a message and read its record back."""
        stored = await self.store.publish(
            self.publish(self.new_inbox(key, number, text=text, topic=topic), claim=claim)
        )
        assert isinstance(stored, Stored)
        return self.inbox(stored.id)

    async def enqueue(self, key: str, name: str, *, started: bool = False) -> OutboxRecord:
        """Enqueue a send and read its record back."""
        new = self.new_outbox(key, name, started=started)
        await self.store.commit(self.commit(new.record.shard, new_outbox=(new,)))
        return self.outbox(new.record.id)

    async def purge_message(self, record: InboxRecord) -> None:
        """Let a claimed message die, and empty it."""
        await self.move(kill_row(record))
        dead = self.inbox(record.id)
        purged = attrs.evolve(dead, status=InboxStatus.PURGED, errors=())
        emptied = make_chat(record.conversation_key, 0, text="")
        purge = InboxPurge(InboxMove(dead, purged, "purge"), emptied)
        await self.store.commit(self.commit(record.shard, purges=(purge,)))

    async def purge_send(self, record: OutboxRecord) -> None:
        """Let a started send die, and empty it."""
        await self.move(fail_send(record, dead=True))
        dead = self.outbox(record.id)
        purged = attrs.evolve(dead, purged_at_us=AT_US, errors=())
        purge = OutboxPurge(OutboxMove(dead, purged, "purge"), OutboundContent(text=""))
        await self.store.commit(self.commit(record.shard, purges=(purge,)))

    async def move(self, move: InboxMove | OutboxMove) -> None:
        """Commit one transition alone."""
        shard = move.before.shard
        if isinstance(move, InboxMove):
            await self.store.commit(self.commit(shard, inbox=(move,)))
        else:
            await self.store.commit(self.commit(shard, outbox=(move,)))

    def inbox(self, row_id: int) -> InboxRecord:
        stored = self.store.reader.inbox(row_id)
        assert stored is not None
        return stored.record

    def outbox(self, row_id: int) -> OutboxRecord:
        stored = self.store.reader.outbox(row_id)
        assert stored is not None
        return stored.record


def claim_row(record: InboxRecord, *, epoch: int = 1) -> InboxMove:
    after = attrs.evolve(
        record, status=InboxStatus.RUNNING, claim=record.claim + 1, epoch=epoch, started_at_us=AT_US + 1
    )
    return InboxMove(record, after, "claim")


def finish_row(record: InboxRecord) -> InboxMove:
    after = attrs.evolve(record, status=InboxStatus.DONE, done_at_us=AT_US + 2, crashes=0, blames=0)
    return InboxMove(record, after, "done")


def fail_row(record: InboxRecord, *, text: str = "boom") -> InboxMove:
    failure = Failure(at_us=AT_US + 2, code="HANDLER_FAILED", text=text, claim=record.claim, own_code="x.own")
    after = attrs.evolve(
        record,
        status=InboxStatus.FAILED,
        failures=record.failures + 1,
        next_at_us=AT_US + 1_000,
        wait_us=998,
        errors=(*record.errors, failure),
    )
    return InboxMove(record, after, "fail", failure.code)


def kill_row(record: InboxRecord, *, at_us: int = AT_US + 3) -> InboxMove:
    failure = Failure(at_us=at_us, code="HANDLER_FAILED", text="gave up", claim=record.claim)
    after = attrs.evolve(
        record, status=InboxStatus.DEAD, dead_at_us=at_us, errors=(*record.errors, failure), next_at_us=None
    )
    return InboxMove(record, after, "dead", failure.code)


def requeue_row(record: InboxRecord) -> InboxMove:
    after = attrs.evolve(
        record,
        status=InboxStatus.QUEUED,
        generation=record.generation + 1,
        failures=0,
        dead_at_us=None,
        errors=(),
    )
    return InboxMove(record, after, "requeue", to_tail=True)


def start_send(record: OutboxRecord) -> OutboxMove:
    after = attrs.evolve(
        record,
        in_flight=True,
        claim=record.claim + 1,
        attempts=record.attempts + 1,
        last_attempt_at_us=AT_US + 1,
        updated_at_us=AT_US + 1,
    )
    return OutboxMove(record, after, "start")


def finish_send(record: OutboxRecord) -> OutboxMove:
    after = attrs.evolve(
        record,
        status=OutboxStatus.SENT,
        in_flight=False,
        accepted=True,
        deduped=False,
        platform_message_id="p1",
        sent_at_us=AT_US + 2,
        updated_at_us=AT_US + 2,
    )
    return OutboxMove(record, after, "sent")


def doubt_send(record: OutboxRecord) -> OutboxMove:
    after = attrs.evolve(record, in_flight=False, uncertain_since_us=AT_US + 2, updated_at_us=AT_US + 2)
    return OutboxMove(record, after, "uncertain", "DELIVERY_UNCERTAIN")


def fail_send(record: OutboxRecord, *, dead: bool = False) -> OutboxMove:
    failure = Failure(at_us=AT_US + 2, code="RATE_LIMITED", text="no", claim=record.claim)
    after = attrs.evolve(
        record,
        status=OutboxStatus.FAILED,
        in_flight=False,
        uncertain_since_us=None,
        dead_at_us=AT_US + 2 if dead else None,
        next_attempt_at_us=None if dead else AT_US + 900,
        errors=(*record.errors, failure),
        updated_at_us=AT_US + 2,
    )
    return OutboxMove(record, after, "dead" if dead else "failed", failure.code)


def requeue_send(record: OutboxRecord) -> OutboxMove:
    after = attrs.evolve(
        record,
        status=OutboxStatus.PENDING,
        generation=record.generation + 1,
        attempts=0,
        dead_at_us=None,
        uncertain_since_us=None,
        errors=(),
    )
    return OutboxMove(record, after, "requeue", to_tail=True)
