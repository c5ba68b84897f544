"""One outbox row in memory, and one attempt to send it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.content import Text
from ..storage.commands import OutboxMove
from ..storage.records import OutboundContent, OutboxRecord, OutboxState
from .channel import Degradation, Outbound, SendOutcome
from .outbox_rules import Resend, Start, outbox_move
from .send_outcome import SendPolicy
from .shard_messages import LookedUp, SendEnded

if TYPE_CHECKING:
    from .delivery import DeliveryActor
    from .lane import Lane
    from .shard import ShardActor


_PARTS_SPAN = 1 << 32


def place_of(record: OutboxRecord) -> int:
    """The place of a send in its lane."""
    return record.seq * _PARTS_SPAN + record.part


def split_place(place: int) -> tuple[int, int]:
    """The seq and part of a place."""
    return divmod(place, _PARTS_SPAN)


class PendingRow:
    """An outbox row in a lane. It never holds a token: what a handler decided is never held back."""

    __slots__ = ("content", "is_looked_up", "is_parked", "lookups", "record", "target")

    holds_token = False

    def __init__(self, record: OutboxRecord, content: OutboundContent) -> None:
        self.record = record
        self.content = content
        """It has a place among the bulk sends that start, see `StartShare`."""
        self.lookups = 0
        self.is_looked_up = False
        self.is_parked = False
        self.target: str | None = None

    @property
    def seq(self) -> int:
        """The row's place in its lane: its seq, and behind that its part, for the parts of a text share one."""
        return place_of(self.record)

    @property
    def is_urgent(self) -> bool:
        """Whether somebody waits for it: it is no part of a broadcast."""
        return not self.content.is_bulk

    @property
    def is_remembered(self) -> bool:
        """Whether the row knows what is not on disk: the look-ups that were tried."""
        return self.is_looked_up or self.lookups > 0

    def start_move(self, now_us: int) -> OutboxMove:
        """The start of its send, whose wait is over; again, where nobody knows what became of the one before."""
        again = self.record.state is OutboxState.UNCERTAIN
        event = Resend(waited=True) if again else Start(waited=True)
        return outbox_move(self.record, event, now_us=now_us, claim=None)


class Send:
    """A started row on its way through a channel's workers; with `is_lookup` the question whether it went out."""

    __slots__ = (
        "address",
        "answer",
        "degraded",
        "delivery",
        "due_s",
        "holds_slot",
        "is_answered",
        "is_ending",
        "is_lookup",
        "lane",
        "outcome_message",
        "row",
        "shard",
        "timeout_s",
    )

    def __init__(
        self,
        shard: ShardActor,
        lane: Lane[PendingRow],
        row: PendingRow,
        delivery: DeliveryActor,
        *,
        is_lookup: bool = False,
    ) -> None:
        self.shard = shard
        self.lane = lane
        self.row = row
        self.delivery = delivery
        self.address = delivery.recipients.address_of(row.record.conversation_key)
        self.is_lookup = is_lookup
        self.holds_slot = True
        self.answer: SendOutcome | None = None
        self.degraded: Degradation | None = None
        self.is_answered = False
        self.is_ending = False
        self.outcome_message: SendEnded | LookedUp | None = None
        self.timeout_s = delivery.adapter.caps.send_timeout_s
        self.due_s = 0.0

    @property
    def policy(self) -> SendPolicy:
        """What decides over its outcome: the message's own policy goes before the channel's."""
        return self.delivery.policy_of(self.row.content)

    @property
    def outbound(self) -> Outbound:
        """What the adapter gets."""
        record, content = self.row.record, self.row.content
        return Outbound(
            id=record.id,
            channel=record.channel,
            conversation_key=record.conversation_key,
            address=self.address,
            text=content.text,
            idempotency_key=record.idempotency_key,
            part=record.part,
            claim=record.claim,
            attempt=record.attempts,
            reply_to=content.reply_to,
            degraded=self.degraded,
            content=content.rich or Text(content.text),
            target=self.row.target,
        )

    def free_slot(self) -> None:
        """Give its slot back, unless that is done or another job has it."""
        if self.holds_slot:
            self.holds_slot = False
            self.delivery.pool.give_back()

    def cut_off(self) -> None:
        """Nothing to do: an answer in hand counts, however late it came."""

    def ended(self, error: BaseException | None, *, timed_out: bool, cancelled: bool) -> None:
        """Tell the shard how it ended. Whatever is not a clean answer leaves the result open."""
        self.delivery.conclude(self, error, timed_out=timed_out, cancelled=cancelled)

    def dropped(self) -> None:
        """No worker will begin it: no byte has left."""
        self.report(
            LookedUp(self, None, "stopped", is_cut_off=True) if self.is_lookup else SendEnded(self, None)
        )

    def report(self, message: SendEnded | LookedUp) -> None:
        """Tell the shard; the message is kept for a shard that crashes before its commit."""
        self.outcome_message = message
        self.shard.tell(message)
