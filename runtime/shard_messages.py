"""What a shard actor is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ..actors.ref import Reply
from ..actors.value import value
from ..storage.commands import Outcome, Stored
from .inbox_rules import accepted

if TYPE_CHECKING:
    from ..actors.errors import BusError
    from ..storage.commands import Commit, Committed, ControlPart
    from .channel import NotSent, SendOutcome, Sent
    from .lane import Lane
    from .outbox_rules import OutboxEvent
    from .send import PendingRow, Send
    from .shard import ShardActor
    from .turn import QueuedRow, Turn


class Accepted:
    """A publish into this shard on its way through the journal, then the word that it is settled.

    Attributes:
        row: What is accepted.
        lane: Where it goes; None where it enters none, parked or refused.
        with_claim: Its claim was to ride along.
        epoch: The shard's lease when it was handed over.
        task: Who waits for the outcome.
        outcome: None until it is settled.
    """

    __slots__ = ("_shard", "epoch", "lane", "outcome", "row", "task", "with_claim")

    def __init__(self, shard: ShardActor, row: QueuedRow, lane: Lane[QueuedRow] | None) -> None:
        self._shard = shard
        self.row = row
        self.lane = lane
        self.with_claim = False
        self.epoch = shard.epoch
        self.task: trio.lowlevel.Task | None = None
        self.outcome: Outcome | None = None

    def settle(self, outcome: Outcome) -> None:
        """Tell the shard, then the publisher; the journal calls this."""
        self.outcome = outcome
        row, shard = self.row, self._shard
        try:
            shard.intake.handed -= 1
            if self.lane is not None:
                if isinstance(outcome, Stored):
                    epoch = shard.instance if outcome.claimed else None
                    row.record = accepted(row.record, seq=outcome.seq, offset=outcome.offset, epoch=epoch)
                shard.tell_accepted(self)
        finally:
            # The publisher cannot be cancelled: whatever becomes of the shard, it must not wait for ever.
            if self.task is not None:
                trio.lowlevel.reschedule(self.task)


class Settled:
    """A Commit of this shard on its way through the journal, then the word that it is settled.

    Attributes:
        epoch: The shard's lease when it was handed over.
        commit: What is decided.
        then, refused: What goes on with the outcome.
        told: Who else hears of it, as soon as the journal says.
        outcome: None until it is settled.
    """

    __slots__ = ("_shard", "_told", "commit", "epoch", "outcome", "refused", "then")

    def __init__(
        self,
        shard: ShardActor,
        commit: Commit,
        then: Callable[[Committed], None],
        refused: Callable[[BusError], None] | None,
        told: Callable[[Outcome], None] | None = None,
    ) -> None:
        self._shard = shard
        self.epoch = shard.epoch
        self.commit = commit
        self.then = then
        self.refused = refused
        self._told = told
        self.outcome: Outcome | None = None

    def settle(self, outcome: Outcome) -> None:
        """Tell the shard, then whoever waits; the journal calls this."""
        self.outcome = outcome
        shard, commit = self._shard, self.commit
        try:
            if commit.emits or shard.ends.waiting:
                shard.tell_others(commit, outcome)
            shard.tell(self)
        finally:
            if self._told is not None:
                self._told(outcome)


@value
class TurnEnded:
    """A handler has really ended."""

    turn: Turn
    error: BaseException | None
    timed_out: bool
    cancelled: bool


@value
class SendEnded:
    """A send has ended; `outcome` None means that no byte left."""

    send: Send
    outcome: SendOutcome | None


@value
class LookedUp:
    """A look-up of an uncertain send has ended; `failed` names the error of one that could not be done.

    `outcome` is then the refusal of the question, where the channel gave one. One that was cut off from here
    (`is_cut_off`: a stop, an actor that crashed) says nothing of the channel and is no try.
    """

    send: Send
    outcome: Sent | NotSent | None
    failed: str | None
    is_cut_off: bool = False


@value
class MessageArrived:
    """An emit has stored an inbox row in this shard."""

    row: QueuedRow


@value
class SendArrived:
    """A publish or an emit has stored an outbox row in this shard."""

    row: PendingRow


@value
class MessageDue:
    """The back-off of a lane that was to end at `due_us` is over."""

    epoch: int
    lane: Lane[QueuedRow]
    due_us: int


@value
class SendDue:
    """The back-off of an outbox lane that was to end at `due_us` is over."""

    epoch: int
    lane: Lane[PendingRow]
    due_us: int


@value
class Requeue:
    """Send a dead or parked message through again. Answers the row's id.

    `control` is the record that asks for it, ended or taken a step further in the same commit. `generation` is the
    row's when it was decided: a later one has been sent through again meanwhile, perhaps by this very decision.
    """

    row_id: int
    reply: Reply[int]
    control: ControlPart | None = None
    generation: int | None = None


@value
class MoveSend:
    """Apply a person's decision to a send. Answers the row's id. `control` and `generation` as in `Requeue`."""

    row_id: int
    event: OutboxEvent
    reply: Reply[int]
    control: ControlPart | None = None
    generation: int | None = None


@value
class Flush:
    """Claim and start what became ready since the last one."""


RareMessage = LookedUp | MessageArrived | SendArrived | MessageDue | SendDue | Requeue | MoveSend | Flush
ShardMessage = Accepted | Settled | TurnEnded | SendEnded | RareMessage
