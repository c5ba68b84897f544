"""The two kinds of stored rows, as frozen values.

An inbox record says where one accepted message stands; an outbox record says where one send stands. The message's
own content travels beside them (`Queued`, `Pending`), because it never changes and a transition only makes a new
record. Times are wall-clock microseconds since 1970 UTC.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from ..actors.content import Rich
from ..actors.message import BusMessage
from ..actors.plain import Plain
from ..actors.value import value

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class InboxStatus(enum.StrEnum):
    """Stored status of an inbox row; the transition table is `runtime/inbox_rules.py`."""

    QUEUED = "queued"
    RUNNING = "running"
    FAILED = "failed"
    DONE = "done"
    DEAD = "dead"
    PARKED = "parked"
    REFUSED = "refused"
    PURGED = "purged"


class OutboxStatus(enum.StrEnum):
    """Stored status of an outbox row; together with its flags it gives the `OutboxState`."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


class OutboxState(enum.StrEnum):
    """The states of a send, from status, `in_flight`, `uncertain_since_us`, `dead_at_us` and `purged_at_us`."""

    READY = "ready"
    FLYING = "flying"
    FAILED = "failed"
    UNCERTAIN = "uncertain"
    DEAD = "dead"
    SENT = "sent"
    PURGED = "purged"


# A look-up of an enum's member costs as much as ten steps on Python 3.11, and a send is asked six times for its state.
_STATUS_SENT: Final = OutboxStatus.SENT
_STATUS_FAILED: Final = OutboxStatus.FAILED
_READY: Final = OutboxState.READY
_FLYING: Final = OutboxState.FLYING
_SENT: Final = OutboxState.SENT


class OnUncertain(enum.StrEnum):
    """What happens to a send whose result nobody knows."""

    PARK = "park"
    RESEND = "resend"
    DROP = "drop"


@value(kw_only=True)
class Failure:
    """One failed turn or attempt, kept with the row until it is requeued.

    `own_code` is the user's code (`x.<name>`) where `code` is HANDLER_FAILED.
    """

    at_us: int
    code: str
    text: str
    claim: int
    own_code: str | None = None


@value(kw_only=True, slots=False)
class InboxRecord:
    """Where one accepted message stands.

    `claim` grows at every claim and never resets: the fence. `failures` counts turns that ended by exception or time
    limit in this generation. `crashes` counts recoveries that found the row claimed; `blames` those that found it
    alone. `wait_us` is the length of the back-off that ends at `next_at_us`.
    """

    id: int
    shard: int
    seq: int
    topic: str
    partition: int
    offset: int
    channel: str | None
    conversation_key: str
    status: InboxStatus
    claim: int = 0
    failures: int = 0
    crashes: int = 0
    blames: int = 0
    generation: int = 0
    epoch: int = 0
    accepted_at_us: int = 0
    started_at_us: int | None = None
    done_at_us: int | None = None
    dead_at_us: int | None = None
    next_at_us: int | None = None
    wait_us: int | None = None
    errors: tuple[Failure, ...] = ()


@value(kw_only=True, slots=False)
class OutboxRecord:
    """Where one send stands. Identity: (channel, idempotency_key, part).

    Attributes:
        attempts: Sends begun in this generation and not taken back; the retry budget.
        claim: Grows at every start and never resets: the fence.
        next_attempt_at_us: When a failed or uncertain row may start again; an uncertain row without it is parked.
        accepted, deduped: What the channel said of the sent message; None while unknown.
        degraded: What was given up to get it out (thread, reply, formatting); None where nothing was.
    """

    id: int
    shard: int
    seq: int
    channel: str
    idempotency_key: str
    part: int
    conversation_key: str
    status: OutboxStatus = OutboxStatus.PENDING
    in_flight: bool = False
    claim: int = 0
    attempts: int = 0
    accepted: bool | None = None
    deduped: bool | None = None
    platform_message_id: str | None = None
    degraded: str | None = None
    generation: int = 0
    created_at_us: int = 0
    updated_at_us: int = 0
    last_attempt_at_us: int | None = None
    sent_at_us: int | None = None
    next_attempt_at_us: int | None = None
    wait_us: int | None = None
    uncertain_since_us: int | None = None
    dead_at_us: int | None = None
    errors: tuple[Failure, ...] = ()
    purged_at_us: int | None = None

    @property
    def state(self) -> OutboxState:
        """The state of the transition table that the stored columns mean."""
        status = self.status
        if status is _STATUS_SENT:
            return _SENT
        if status is _STATUS_FAILED:
            if self.dead_at_us is None:
                return OutboxState.FAILED
            return OutboxState.DEAD if self.purged_at_us is None else OutboxState.PURGED
        if self.in_flight:
            return _FLYING
        return _READY if self.uncertain_since_us is None else OutboxState.UNCERTAIN


@value(kw_only=True)
class OutboundContent:
    """What one outbox row sends: stored once, and changed only where the channel finds a text too long.

    Attributes:
        text: The text to send.
        inbox_id: The message whose turn decided it; None for a direct publish.
        reply_to: The platform's id of the message answered, where there is one.
        on_uncertain: The message's own policy; None means the channel's.
        correlation_id: Carried from the message that caused it.
        hops: The cause's hops + 1.
        is_bulk: Interactive sends of the channel may pass it.
        parts: How many parts its text has; this is one of them.
        rich: What it is where it is more than a text.
        is_piece: It is a piece of a part that the channel found too long.
    """

    text: str
    inbox_id: int | None = None
    reply_to: str | None = None
    on_uncertain: OnUncertain | None = None
    correlation_id: str | None = None
    hops: int = 0
    is_bulk: bool = False
    parts: int = 1
    is_piece: bool = False
    rich: Rich | None = None


class ControlStatus(enum.StrEnum):
    """Where a control record stands."""

    WAITING = "waiting"
    DONE = "done"
    REFUSED = "refused"


@value(kw_only=True)
class StoredControl:
    """A control record: what somebody asked of the owner, and what became of it.

    Attributes:
        number: Its place among all of them; 0 before it is stored.
        args, result: JSON objects, as text.
        actor: Who asks, for the record.
        code: Why it was refused.
    """

    id: str
    verb: str
    args: str
    actor: str
    created_at_us: int
    status: ControlStatus = ControlStatus.WAITING
    code: str | None = None
    result: str | None = None
    done_at_us: int | None = None
    number: int = 0


@value(kw_only=True, slots=False)
class TimerRecord:
    """Where one timer stands. Its home is the shard that it fires into.

    Attributes:
        id: Names it once for the life of the store.
        kind: What arrives: a message for a conversation, or an event.
        partition: Of the topic, that the arrival goes to.
        conversation_key: The conversation, or the event's key.
        due_at_us: When it fires.
        wait_us: How long the pause before that was meant to be; None where it waits for a time of the wall clock.
        rule, zone: How it repeats, and by whose clocks; None for one that fires once.
    """

    id: str
    shard: int
    kind: Literal["message", "event"]
    topic: str
    partition: int
    conversation_key: str | None
    due_at_us: int
    wait_us: int | None = None
    rule: str | None = None
    zone: str | None = None
    created_at_us: int = 0


@value(kw_only=True)
class TimerContent:
    """What arrives when a timer fires; it never changes.

    Attributes:
        payload: The text of a message; any plain value for an event.
        headers: Of an event.
        correlation_id, causation_id: Of the turn that set it; None, nobody's turn did.
        hops: Of the arrival.
    """

    payload: Plain
    headers: Mapping[str, str] = NO_HEADERS
    correlation_id: str | None = None
    causation_id: str | None = None
    hops: int = 0


@value
class StoredTimer:
    """A timer as read back: its record and what it brings."""

    record: TimerRecord
    content: TimerContent


@value
class StoredInbox:
    """An inbox row as read back: its record and its message."""

    record: InboxRecord
    message: BusMessage


@value
class StoredOutbox:
    """An outbox row as read back: its record and what it sends."""

    record: OutboxRecord
    content: OutboundContent
