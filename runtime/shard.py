"""The actor that owns one shard: every decision over its conversations is made here and committed under its lease."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from ..actors.actor import Actor
from ..actors.errors import BusError, Code
from ..actors.value import changed
from ..storage.commands import (
    NOTHING,
    Claim,
    Commit,
    Committed,
    ControlPart,
    InboxMove,
    OutboxMove,
    Outcome,
    Refused,
)
from .defaults import WARM_S
from .emits import tell_arrival
from .gate_restart import enter_again
from .inbox_rules import Release as ReleaseTurn
from .inbox_rules import inbox_move
from .outbox_rules import Release as ReleaseSend
from .outbox_rules import outbox_move
from .pool import WorkerPool
from .shard_desk import ShardDesk
from .shard_inbox import ShardInbox
from .shard_messages import (
    Accepted,
    Flush,
    LookedUp,
    MessageArrived,
    MessageDue,
    MoveSend,
    RareMessage,
    Requeue,
    SendArrived,
    SendDue,
    SendEnded,
    Settled,
    ShardMessage,
    TurnEnded,
)
from .shard_outbox import ShardOutbox
from .start_share import StartShare

if TYPE_CHECKING:
    from .send import Send
    from .services import Services

_STOP_S = 5.0
_MAILBOX = 8_192
Pool = WorkerPool[Any] | StartShare


class ShardActor(Actor[ShardMessage]):
    """One shard: lanes of messages and of sends over one lease.

    A run begins with the lease. A restart takes a new epoch, ends what was running, gives claims back without
    counting a crash, and reads everything again; what the journal still settles for the old epoch is ignored.
    """

    def __init__(self, number: int, services: Services) -> None:
        super().__init__(f"shard-{number}", capacity=_MAILBOX)
        self.number = number
        self.epoch = services.store.epochs[number]
        self.lease = Claim(number, self.epoch)
        """What a publish asks for whose claim may ride along."""
        self.instance = services.store.info.instance
        self.intake = services.intake
        self.ends = services.ends
        self.is_stopping = False
        self._services = services
        self._is_first_run = True
        self._flush_told = False
        self._sweep_due = False
        self._unsettled = 0
        self.held: Counter[Pool] = Counter()
        """Slots that this shard has reserved and that are not yet in a job, by pool."""
        self.offers: set[Accepted] = set()
        """Messages on their way through the journal to a lane, those offered to a run that crashed too."""
        self._sends: dict[int, Send] = {}
        self.inbox = ShardInbox(self, services)
        self.outbox = ShardOutbox(self, services, self._sends)
        self.desk = ShardDesk(self, services)
        self.tell: Callable[[ShardMessage], None] = self._mailbox.put_nowait
        """Leave a message."""

    @property
    def is_quiet(self) -> bool:
        """Nothing queued, at work, in back-off or on its way in this shard."""
        return (
            not self._unsettled
            and not self._flush_told
            and not len(self.mailbox)
            and self.inbox.lanes.is_quiet
            and self.outbox.lanes.is_quiet
        )

    @property
    def is_drained(self) -> bool:
        """No turn, send or commit of this shard is under way."""
        return not (self.has_work or len(self.mailbox))

    @property
    def has_work(self) -> bool:
        """A turn, send or commit is under way; a wake-up that waits in the mailbox is none."""
        return bool(self._unsettled or self.inbox.turns or self._sends)

    def tell_arrival(self, message: MessageArrived | SendArrived) -> None:
        """Leave word of a row stored by somebody else; without room it stays on disk for the next scan."""
        if len(self.mailbox) < _MAILBOX // 2:
            self.tell(message)
            return
        key, seq = message.row.record.conversation_key, message.row.seq
        if isinstance(message, MessageArrived):
            self.inbox.lanes.miss(key, seq)
        else:
            self.outbox.lanes.miss(key, seq)
        self.flush_soon()

    def tell_accepted(self, message: Accepted) -> None:
        """Leave word of a settled publish; without room an unclaimed row stays on disk.

        So does one that was offered to the run that crashed, and stored after this run began to read: it may have been
        read already, but cannot have been at work, for its claim settles after this.
        """
        self.offers.discard(message)
        if message.epoch == self.epoch and (message.with_claim or len(self._mailbox) < _MAILBOX // 2):
            self.tell(message)
        else:
            self.inbox.missed(message)
            self.flush_soon()

    def flush_soon(self) -> None:
        """See that a flush follows the messages that wait now."""
        if not self._flush_told:
            self._flush_told = True
            self.tell(Flush())

    def submit(
        self,
        commit: Commit,
        then: Callable[[Committed], None],
        refused: Callable[[BusError], None] | None = None,
        *,
        told: Callable[[Outcome], None] | None = None,
    ) -> None:
        """Hand a Commit to the journal; `then` runs as a message of this shard.

        `told` hears of the outcome as the journal settles it, whatever becomes of the shard. A refusal without
        `refused` means that the shard and the store disagree: the shard crashes and reads again.
        """
        settled = Settled(self, commit, then, refused, told)
        self._services.store.submit(commit, settled.settle)
        self._unsettled += 1

    def submit_moves(
        self,
        *,
        inbox: tuple[InboxMove, ...] = (),
        outbox: tuple[OutboxMove, ...] = (),
        then: Callable[[Committed], None],
        refused: Callable[[BusError], None] | None = None,
        control: ControlPart | None = None,
    ) -> None:
        """`submit` a Commit of transitions alone, and of the control record that asked for them."""
        at_us = self._services.clock.wall_us()
        commit = changed(
            NOTHING,
            shard=self.number,
            epoch=self.epoch,
            at_us=at_us,
            inbox=inbox,
            outbox=outbox,
            control=control,
        )
        self.submit(commit, then, refused)

    def tell_others(self, commit: Commit, outcome: Outcome) -> None:
        """Tell who waits for the ends that a Commit brings, and who gets rows of it.

        The journal has it called in its own order: whoever gets rows hears of them in that order.
        """
        if self._services.ends.waiting and isinstance(outcome, Committed):
            self._services.ends.committed(commit)
        if commit.emits and isinstance(outcome, Committed):
            for emit, arrived in zip(commit.emits, outcome.emits, strict=False):
                tell_arrival(emit.row, arrived, self._services)
            if not outcome.emits:
                self._services.relay.nudge(self.number)

    # --- the actor -------------------------------------------------------------------------------------------

    async def on_start(self) -> None:
        """Own the shard; after a crash, give back what the crashed run had claimed."""
        if self._is_first_run:
            self._is_first_run = False
        else:
            await self._recover()
        self.flush_soon()

    async def handle_batch(self, messages: deque[ShardMessage]) -> None:
        """Handle what was taken at once, then claim and start what became ready."""
        while messages:
            message = messages.popleft()
            if isinstance(message, Settled):
                if message.epoch == self.epoch:
                    self._unsettled -= 1
                    if isinstance(message.outcome, Committed):
                        message.then(message.outcome)
                    else:
                        self._handle_refusal(message)
            elif isinstance(message, Accepted):
                self._handle_accepted(message)
            elif isinstance(message, TurnEnded):
                self._handle_turn_ended(message)
            elif isinstance(message, SendEnded):
                self.outbox.send_ended(message)
            else:
                self._handle(message)
        if not self._flush_told and (self.inbox.wants_flush or self.outbox.wants_flush):
            self.flush_soon()
        if not self._sweep_due and (self.inbox.lanes.has_warm or self.outbox.lanes.has_warm):
            self._sweep_due = True
            self._services.alarms.after(WARM_S, self._sweep)
        self._services.activity.changed()

    def _handle(self, message: RareMessage) -> None:
        """Handle one message that is not on the way of every conversation; nothing here waits."""
        match message:
            case Flush():
                self._flush()
            case MessageArrived(row=row):
                self.inbox.arrived(row)
            case SendArrived(row=sent):
                self.outbox.arrived(sent)
            case MessageDue():
                if message.epoch == self.epoch:
                    self.inbox.due(message)
            case SendDue():
                if message.epoch == self.epoch:
                    self.outbox.due(message)
            case LookedUp():
                self.outbox.looked_up(message)
            case Requeue():
                self.desk.requeue(message)
            case MoveSend():
                self.desk.move_send(message)

    async def on_stop(self) -> None:
        """Bring what is under way to an end on disk: claims go back, nothing is counted as a crash.

        After a crash nothing is brought to an end: the next run reads what is on disk.
        """
        if not self._services.draining:
            return
        self.is_stopping = True
        with trio.move_on_after(_STOP_S, shield=True):
            while self._unsettled or len(self.mailbox):
                await self.handle_batch(deque(await self.mailbox.get_batch(256)))

    # --- inside ----------------------------------------------------------------------------------------------

    def _handle_refusal(self, message: Settled) -> None:
        outcome = message.outcome
        if isinstance(outcome, Refused):
            if message.refused is not None and outcome.error.code is not Code.FENCED:
                message.refused(outcome.error)
            elif not self._services.is_ending:
                raise outcome.error

    def _handle_accepted(self, message: Accepted) -> None:
        # Told to the run that crashed: its row was on disk before this one read anything.
        if message.epoch == self.epoch:
            self.inbox.accepted(message)

    def _handle_turn_ended(self, message: TurnEnded) -> None:
        if message.turn.epoch == self.epoch:
            self.inbox.turn_ended(message)
        elif message.turn.holds_slot:
            message.turn.holds_slot = False
            message.turn.topic.pool.give_back()

    def _sweep(self) -> None:
        """Let go of conversations that are idle for long: they cost no object from then on."""
        left = self.inbox.lanes.sweep(), self.outbox.lanes.sweep()
        self._sweep_due = any(left)
        if self._sweep_due:
            self._services.alarms.after(WARM_S, self._sweep)
        self._services.activity.changed()

    def _flush(self) -> None:
        """Claim and start all that became ready since the last flush, in one Commit."""
        self._flush_told = False
        self.inbox.refill()
        self.outbox.refill()
        now_us = self._services.clock.wall_us()
        claims, starts = self.inbox.claims(now_us), self.outbox.starts(now_us)
        rows, sends = self.inbox.take_claimed(), self.outbox.take_started()
        if claims or starts:

            def then(_: Committed) -> None:
                self.inbox.claimed(rows, claims)
                self.outbox.started(sends, starts)

            self.submit_moves(inbox=tuple(claims), outbox=tuple(starts), then=then)

    async def _recover(self) -> None:
        """Take the lease anew and read everything again. The old run's commits are settled before the lease is."""
        services = self._services
        leased = await services.store.take_lease(self.number)
        for topic in services.topics.values():
            await topic.pool.revoke([turn for turn in topic.pool.all_jobs if turn.shard is self])
        for delivery in services.deliveries.values():
            lookups = [send for send in delivery.pool.all_jobs if send.shard is self and send.is_lookup]
            await delivery.pool.revoke(lookups)
        inbox, outbox = ShardInbox(self, services), ShardOutbox(self, services, self._sends)
        turns, tokens = self.inbox.turns, self.inbox.tokens_held
        held, self.held = self.held, Counter()
        # Before anything is given back: lanes of the old run that stand in line for a slot must get none of it.
        self.inbox, self.outbox = inbox, outbox
        self.epoch = leased.epoch
        self.lease = Claim(self.number, self.epoch)
        self._unsettled = 0
        self._flush_told = False
        for offer in self.offers:
            # Its token goes back with all others; in its conversation it counts as before.
            offer.row.holds_token = False
            inbox.lanes.open(offer.row.record.conversation_key).arriving += 1
        for turn in turns:
            if turn.holds_slot:
                turn.holds_slot = False
                turn.topic.pool.give_back()
        for pool, slots in held.items():
            for _ in range(slots):
                pool.give_back()
        services.tokens.give_back(tokens)
        now_us = services.clock.wall_us()
        reader = services.store.reader
        claimed = [record for record in reader.claimed() if record.shard == self.number]
        flying = {row.record.id: row.record for row in reader.flying() if row.record.shard == self.number}
        under_way = [
            send
            for row_id, send in self._sends.items()
            if not send.is_lookup and row_id in flying and flying[row_id].claim == send.row.record.claim
        ]
        for send in self._sends.values():
            # Told already, and not to go on: the word of it may have been the message that the crash took along.
            if send not in under_way and send.outcome_message is not None:
                send.free_slot()
        self._sends.clear()
        for send in under_way:
            self._sends[send.row.record.id] = send
        # A start on disk that never became a send: no byte has left.
        unbegun = [record for row_id, record in flying.items() if row_id not in self._sends]
        if claimed or unbegun:
            await services.store.commit(
                Commit(
                    shard=self.number,
                    epoch=self.epoch,
                    at_us=now_us,
                    inbox=tuple(
                        inbox_move(row, ReleaseTurn(), now_us=now_us, claim=row.claim) for row in claimed
                    ),
                    outbox=tuple(
                        outbox_move(row, ReleaseSend(), now_us=now_us, claim=row.claim) for row in unbegun
                    ),
                )
            )
        for send in under_way:
            self.outbox.adopt(send)
        if not services.gate.is_open:
            enter_again(self, services)
