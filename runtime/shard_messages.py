"""What a shard actor is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from ..actors.ref import Reply
from ..storage.commands import Committed, Outcome

if TYPE_CHECKING:
    from ..actors.errors import BusError
    from .channel import NotSent, SendOutcome, Sent
    from .lane import Lane
    from .outbox_rules import OutboxEvent
    from .send import PendingRow, Send
    from .turn import QueuedRow, Turn


@attrs.frozen
class Accepted:
    """The journal has settled a publish into this shard."""

    row: QueuedRow
    epoch: int
    with_claim: bool
    outcome: Outcome


@attrs.frozen
class Settled:
    """The journal has settled a Commit of this shard."""

    epoch: int
    then: Callable[[Committed], None]
    refused: Callable[[BusError], None] | None
    outcome: Outcome


@attrs.frozen
class TurnEnded:
    """A handler has really ended."""

    turn: Turn
    error: BaseException | None
    timed_out: bool
    cancelled: bool


@attrs.frozen
class SendEnded:
    """A send has ended; `outcome` None means that no byte left."""

    send: Send
    outcome: SendOutcome | None


@attrs.frozen
class LookedUp:
    """A look-up of an uncertain send has ended; `failed` names the error of one that could not be done."""

    send: Send
    outcome: Sent | NotSent | None
    failed: str | None


@attrs.frozen
class MessageArrived:
    """An emit has stored an inbox row in this shard."""

    row: QueuedRow


@attrs.frozen
class SendArrived:
    """A publish or an emit has stored an outbox row in this shard."""

    row: PendingRow


@attrs.frozen
class MessageDue:
    """The back-off of a lane that was to end at `due_us` is over."""

    epoch: int
    lane: Lane[QueuedRow]
    due_us: int


@attrs.frozen
class SendDue:
    """The back-off of an outbox lane that was to end at `due_us` is over."""

    epoch: int
    lane: Lane[PendingRow]
    due_us: int


@attrs.frozen
class Requeue:
    """Send a dead or parked message through again. Answers the row's id."""

    row_id: int
    reply: Reply[int]


@attrs.frozen
class MoveSend:
    """Apply a person's decision to a send. Answers the row's id."""

    row_id: int
    event: OutboxEvent
    reply: Reply[int]


@attrs.frozen
class Flush:
    """Claim and start what became ready since the last one."""


ShardMessage = (
    Accepted
    | Settled
    | TurnEnded
    | SendEnded
    | LookedUp
    | MessageArrived
    | SendArrived
    | MessageDue
    | SendDue
    | Requeue
    | MoveSend
    | Flush
)
