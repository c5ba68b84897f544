"""What is handed to the journal, and what comes back.

A *part* is one `Publish`, one `Commit` or one `TakeLease`: it is applied whole or not at all. Parts are frozen values:
the journal applies them on another thread, in the order they were submitted, many to one database transaction.
"""

from __future__ import annotations

from typing import Final

from ..actors.errors import BusError
from ..actors.event import Event
from ..actors.message import BusMessage
from ..actors.value import value
from .records import InboxRecord, OutboundContent, OutboxRecord, TimerContent, TimerRecord


@value
class EmitNumber:
    """Identity of a decision for another home: the deciding row's shard and seq, and its place in the turn."""

    shard: int
    seq: int
    index: int


@value(kw_only=True)
class NewInbox:
    """A message to accept. The record's `id` is taken from the store; `seq` and `offset` are given by the journal.

    `dedupe_key` names the message once for its home: `in:<channel>:<platform id>`, `topic:<topic>:<idempotency key>`,
    for an emit `emit:<shard>:<seq>:<index>`, for what a timer brings `<timer>:<due time>`.
    """

    record: InboxRecord
    message: BusMessage
    dedupe_key: str


@value(kw_only=True)
class NewOutbox:
    """A send to enqueue. `record` is READY, or FLYING where the first start rides along.

    `seq` comes from the journal, one for consecutive parts of one text; a re-split part gives its text's old one.
    """

    record: OutboxRecord
    content: OutboundContent


@value(kw_only=True)
class NewEvent:
    """An event for an event topic: append-only. `id` is taken from the store, the offset comes from the journal."""

    id: int
    shard: int
    partition: int
    event: Event
    dedupe_key: str | None


@value(kw_only=True)
class NewTimer:
    """A timer to set. Where one of its id is set already that one stays, unless this `replaces` it."""

    record: TimerRecord
    content: TimerContent
    replaces: bool = False


@value
class DropTimer:
    """A timer to take back; one that has fired, or never was, is passed over."""

    id: str
    shard: int


@value
class TimerMove:
    """A timer leaves its due time: for another one, or (`after` is None) for good.

    One that is not set for the time that `before` names refuses the whole Commit, STALE_CLAIM.
    """

    before: TimerRecord
    after: TimerRecord | None


TimerWrite = NewTimer | DropTimer | TimerMove
NewRow = NewInbox | NewOutbox | NewEvent | NewTimer | DropTimer


@value
class Claim:
    """Ask that an accepted row be stored as claimed by this lease. A stale lease stores it unclaimed."""

    shard: int
    epoch: int


@value
class Fact:
    """A durable fact of an adapter or the core; `value` is msgpack, at most 64 KiB, None deletes it."""

    namespace: str
    key: str
    value: bytes | None


@value(kw_only=True)
class Publish:
    """Accept one row: store it, or find that it is there already."""

    row: NewRow
    at_us: int
    claim: Claim | None = None
    facts: tuple[Fact, ...] = ()
    relayed: EmitNumber | None = None
    """Set by the relay alone: the emit this publish repeats. It becomes the dedupe key."""


@value
class InboxMove:
    """One transition of an inbox row. `event` is the table's word; `code` goes into the history.

    With `to_tail` the row gets a new `seq` (a requeue is a new arrival).
    """

    before: InboxRecord
    after: InboxRecord
    event: str
    code: str | None = None
    to_tail: bool = False


@value
class OutboxMove:
    """One transition of an outbox row; see `InboxMove`."""

    before: OutboxRecord
    after: OutboxRecord
    event: str
    code: str | None = None
    to_tail: bool = False


@value
class StateWrite:
    """The new state of a conversation: msgpack, at most 256 KiB; None removes it."""

    conversation_key: str
    value: bytes | None
    version: int


@value
class ControlDone:
    """The end of a waiting control record; a part that ends one that has ended already is refused, STALE_CLAIM.

    `number` is the record's. `code` says why it was refused; None, it was carried out. `result` is a JSON object, as
    text. `args` is what stays of the record's arguments; None, all of them.
    """

    number: int
    result: str
    code: str | None = None
    args: str | None = None


@value
class ControlStep:
    """How far a waiting control record has come, in the commit that took it there; refused as `ControlDone` is.

    `progress` is a JSON object, as text; it stands in place of the result until there is one.
    """

    number: int
    progress: str


ControlPart = ControlDone | ControlStep


@value
class InboxPurge:
    """A dead message is emptied: `move` is its transition, `message` what stays of it."""

    move: InboxMove
    message: BusMessage


@value
class OutboxPurge:
    """The same of a dead send."""

    move: OutboxMove
    content: OutboundContent


@value
class StepWrite:
    """The result of a step: msgpack, at most 256 KiB. The first one of a name stays."""

    name: str
    value: bytes


@value
class InTurn:
    """Says that a Commit comes from inside a turn: it is refused, STALE_CLAIM, unless the row runs under this claim.

    Attributes:
        record: The row as it was claimed; of the Commit's own shard.
        steps: Results to keep with the row. One whose name has a result already is refused, STALE_CLAIM: only a run
            that is over can come with it.
    """

    record: InboxRecord
    steps: tuple[StepWrite, ...] = ()


@value
class Emit:
    """A decision for another home, numbered inside its Commit. It arrives unclaimed."""

    number: EmitNumber
    row: NewRow


@value(kw_only=True, slots=False)
class Commit:
    """Everything the owner of a shard decides at once. All of it is stored, or none.

    Attributes:
        shard, epoch: The lease this is decided under; a stale one is refused as FENCED.
        at_us: The time of the decision, for every row it touches.
        inbox: Transitions of inbox rows of this shard. A claim whose row turned out a duplicate is dropped.
        outbox: Transitions of outbox rows of this shard.
        new_outbox: Sends to conversations of this shard, in order.
        state: State of conversations of this shard.
        emits: Decisions for other homes.
        relayed: Emits of this shard that reached their homes and can go.
        facts: Durable facts.
        purges: Dead rows of this shard to empty.
        control: The control record that this carries out, refuses, or takes a step further.
        turn: The turn that decided this and goes on.
        timers: Timers of this shard to set, to take back, to move on; in order.
        arrivals: Rows of this shard that are not sends, in order: what timers bring. They arrive unclaimed.
    """

    shard: int
    epoch: int
    at_us: int
    inbox: tuple[InboxMove, ...] = ()
    outbox: tuple[OutboxMove, ...] = ()
    new_outbox: tuple[NewOutbox, ...] = ()
    state: tuple[StateWrite, ...] = ()
    emits: tuple[Emit, ...] = ()
    relayed: tuple[EmitNumber, ...] = ()
    facts: tuple[Fact, ...] = ()
    purges: tuple[InboxPurge | OutboxPurge, ...] = ()
    control: ControlPart | None = None
    turn: InTurn | None = None
    timers: tuple[TimerWrite, ...] = ()
    arrivals: tuple[NewInbox | NewEvent, ...] = ()


NOTHING: Final = Commit(shard=0, epoch=0, at_us=0)
"""What a Commit is made out of on the hot path, by `changed`: setting its fields one by one costs twice as much."""


@value
class TakeLease:
    """Take the ownership of a shard anew: raises its epoch, so that every earlier lease of it is fenced."""

    shard: int


Part = Publish | Commit | TakeLease


@value
class Stored:
    """A published row is on disk. `seq` is its place in its shard, `offset` its place in (topic, partition).

    A timer has neither; its numbers are 0.
    """

    id: int
    seq: int
    offset: int
    claimed: bool


@value
class Duplicate:
    """The key was there already: the first row's place. `conflict` means it holds another content."""

    id: int
    partition: int
    offset: int
    conflict: bool


@value
class Committed:
    """A Commit is on disk.

    Attributes:
        outbox: One entry for each `new_outbox`, in order: Stored, or Duplicate where that very send is there already.
        emits: The same for each emit; empty where the store relays them.
        tails: (row id, new seq) of each move with `to_tail`.
        dropped: Ids of claimed inbox rows that do not exist, because their accept proved a duplicate.
        arrivals: One entry for each of `arrivals`, in order.
    """

    outbox: tuple[Stored | Duplicate, ...] = ()
    emits: tuple[Stored | Duplicate, ...] = ()
    tails: tuple[tuple[int, int], ...] = ()
    dropped: tuple[int, ...] = ()
    arrivals: tuple[Stored | Duplicate, ...] = ()


@value
class Leased:
    """The new epoch of the shard."""

    shard: int
    epoch: int


@value
class Refused:
    """The part is not stored; its neighbours are. FENCED and STALE_CLAIM are final: re-read, then decide."""

    error: BusError


Outcome = Stored | Duplicate | Committed | Leased | Refused
