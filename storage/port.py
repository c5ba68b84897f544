"""What a store is: two writes and some reads.

`submit` hands a frozen part over and returns at once; its `settle` is called exactly once on the trio thread, after
the COMMIT that holds the part (or after the refusal). Parts of one store settle in the order they were submitted; where
the disk is full, a part that still fits may pass those of other shards, never one of its own.
Whoever needs to wait uses `publish` and `commit`, which are thin waits on top.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import attrs
import trio

from .commands import Commit, Committed, Duplicate, EmitNumber, Leased, Outcome, Part, Publish, Stored
from .condition import StoreCondition
from .pruning import Ages, Past, PruneKind
from .records import (
    InboxRecord,
    InboxStatus,
    OutboxState,
    StoredControl,
    StoredInbox,
    StoredOutbox,
    StoredTimer,
)

LAST_PART = 2**32 - 1
"""No text has as many parts."""

Settle = Callable[[Outcome], None]


@attrs.frozen(kw_only=True)
class Caps:
    """What a backend can do; the conformance kit proves each claim.

    `shared` says who else can reach the store: to read it, and to leave control records.
    """

    shared: Literal["process", "host", "cluster"]
    durable: Literal["none", "process", "fsync", "replicated_fsync"]
    emits: Literal["atomic", "relayed"]


@attrs.frozen(kw_only=True)
class StoreInfo:
    """What a store says of itself; `instance` is the number of this opening."""

    uuid: str
    schema: int
    shard_count: int
    created_at_us: int
    instance: int
    clean: bool
    """Whether the opening before this one was closed properly (True for a new store)."""


@attrs.frozen
class StoredState:
    """A conversation's state as stored: msgpack and the version that wrote it."""

    value: bytes
    version: int


@attrs.frozen(kw_only=True)
class HistoryRow:
    """One transition, as chained. `h` = SHA-256(h before it in its shard, msgpack of the other columns in order)."""

    shard: int
    hseq: int
    kind: str
    identity: int
    before: str
    after: str
    event: str
    claim: int
    at_us: int
    code: str | None
    instance: int
    h: bytes


class Reader(Protocol):
    """Reads of committed rows: each one short statement, bounded by its `limit`."""

    def next_inbox_key(self, shard: int, after: str) -> str | None:
        """The first conversation key greater than `after` that has an open inbox row (queued, running, failed)."""
        ...

    def inbox_lane(self, shard: int, key: str, after_seq: int, limit: int) -> list[StoredInbox]:
        """Open rows of one conversation with a seq greater than `after_seq`, in order."""
        ...

    def count_inbox_lane(self, shard: int, key: str, after_seq: int) -> tuple[int, int]:
        """How many open rows of one conversation have a seq greater than `after_seq`, and the highest one.

        Without any, the second number is `after_seq`.
        """
        ...

    def has_inbox(self, dedupe_key: str) -> bool:
        """Whether a message is stored under this dedupe key, whatever became of it."""
        ...

    def outbox_lane(
        self, shard: int, key: str, after_seq: int, limit: int, *, after_part: int = LAST_PART
    ) -> list[StoredOutbox]:
        """Open rows of one conversation behind `after_seq` and, of that seq, `after_part`, ordered by (seq, part).

        Rows of one seq (the parts of one text) are never torn apart by `limit`.
        """
        ...

    def outbox_page(self, shard: int, after: str, limit: int) -> list[StoredOutbox]:
        """The first open rows of the conversations behind `after`, ordered by (conversation key, seq, part)."""
        ...

    def claimed(self) -> list[InboxRecord]:
        """All inbox rows stored as running, of every shard."""
        ...

    def crashed(self) -> list[InboxRecord]:
        """Open inbox rows that are not running and have met two crashes or more, of every shard."""
        ...

    def flying(self) -> list[StoredOutbox]:
        """All outbox rows stored as in flight, of every shard."""
        ...

    def uncertain(self, channel: str, after_id: int, limit: int) -> list[StoredOutbox]:
        """Outbox rows of a channel whose result is unknown, by id."""
        ...

    def inbox(self, row_id: int) -> StoredInbox | None:
        """One inbox row by id."""
        ...

    def outbox(self, row_id: int) -> StoredOutbox | None:
        """One outbox row by id."""
        ...

    def find_outbox(self, channel: str, idempotency_key: str, part: int) -> StoredOutbox | None:
        """One outbox row by identity."""
        ...

    def text_parts(self, channel: str, idempotency_key: str) -> list[StoredOutbox]:
        """All parts of one text, by part."""
        ...

    def is_held(self, channel: str, idempotency_key: str, part: int) -> bool:
        """Whether a part of the text before this one is uncertain or dead."""
        ...

    def is_blocked(self, shard: int, key: str, before_seq: int, before_part: int) -> bool:
        """Whether an uncertain row of the conversation stands before that place."""
        ...

    def list_inbox(
        self, *, status: InboxStatus | None, key: str | None, offset: int, limit: int
    ) -> list[StoredInbox]:
        """Inbox rows, newest first; for dead rows by (dead_at, id)."""
        ...

    def list_outbox(
        self, *, state: OutboxState | None, key: str | None, offset: int, limit: int
    ) -> list[StoredOutbox]:
        """Outbox rows, newest first."""
        ...

    def dead_messages(self, until_us: int, limit: int) -> list[StoredInbox]:
        """Dead messages that died at that time or before, the oldest death first."""
        ...

    def dead_sends(self, until_us: int, limit: int) -> list[StoredOutbox]:
        """The same for sends."""
        ...

    def count_inbox(self) -> dict[InboxStatus, int]:
        """How many inbox rows stand in each status."""
        ...

    def count_outbox(self) -> dict[OutboxState, int]:
        """How many outbox rows stand in each state."""
        ...

    def count_undecided(self) -> int:
        """Count the uncertain sends that nothing but a person's decision ends."""
        ...

    def count_retried(self) -> tuple[int, int]:
        """Transitions recorded as retries so far: (turns, sends)."""
        ...

    def state(self, conversation_key: str) -> StoredState | None:
        """The conversation's state."""
        ...

    def step(self, inbox_id: int, name: str) -> bytes | None:
        """The stored result of a message's step."""
        ...

    def fact(self, namespace: str, key: str) -> bytes | None:
        """A durable fact."""
        ...

    def facts(self, namespace: str, prefix: str, limit: int) -> list[tuple[str, bytes]]:
        """The durable facts whose key begins so, by key."""
        ...

    def due_timers(self, until_us: int, limit: int) -> list[StoredTimer]:
        """Timers of every shard that are due at that time or before, the longest due first.

        Those of one time come in the order they were set.
        """
        ...

    def next_timer_us(self) -> int | None:
        """When the next timer of any shard is due; None where none is set."""
        ...

    def future_timers(self, now_us: int, limit: int) -> list[StoredTimer]:
        """Timers whose pause begins after that time: they were set before the clock was set back."""
        ...

    def declared_timers(self) -> list[StoredTimer]:
        """Timers that the topology has set, by id: those whose id begins with `every-`."""
        ...

    def timer(self, timer_id: str) -> StoredTimer | None:
        """One timer by id."""
        ...

    def list_timers(
        self, *, key: str | None, topic: str | None, offset: int, limit: int
    ) -> list[StoredTimer]:
        """Timers, the next one first."""
        ...

    def count_timers(self) -> int:
        """How many timers are set."""
        ...

    def waiting_controls(self, limit: int) -> list[StoredControl]:
        """Control records that wait, the oldest first."""
        ...

    def control(self, control_id: str) -> StoredControl | None:
        """One control record."""
        ...

    def emits(self, shard: int, limit: int) -> list[tuple[EmitNumber, Publish]]:
        """Emits of this source that were not relayed yet, in order, each as the publish that relays it."""
        ...

    def past(self, kind: PruneKind, ages: Ages, after: int, limit: int) -> Past:
        """Look at `limit` rows behind `after` (0 at first) for what is past its time.

        Never in it: what is open, dead, parked or uncertain, and what that needs (the sends of an open message, the
        other parts of a text); the newest row of the history and the last two openings.
        """
        ...

    def history(self, shard: int, after_hseq: int, limit: int) -> list[HistoryRow]:
        """The chain of one shard, in order."""
        ...


class Store(Protocol):
    """One open store: the only writer of its tables."""

    @property
    def caps(self) -> Caps: ...
    @property
    def info(self) -> StoreInfo: ...
    @property
    def reader(self) -> Reader: ...
    @property
    def epochs(self) -> Sequence[int]:
        """The lease epoch of each shard, as taken when the store was opened."""
        ...

    @property
    def open_messages(self) -> int:
        """How many inbox rows are open (queued, running, failed), all that was settled counted in."""
        ...

    @property
    def condition(self) -> StoreCondition:
        """How the store is doing; asked for every few seconds, answered without the disk."""
        ...

    def next_inbox_id(self) -> int:
        """A row id nobody had; ids may have holes."""
        ...

    def next_outbox_id(self) -> int: ...
    def next_event_id(self) -> int: ...

    def submit(self, part: Part, settle: Settle) -> None:
        """Hand a part over. Never blocks. After `close` has begun it settles as Refused(BUS_CLOSED)."""
        ...

    async def publish(self, part: Publish) -> Stored | Duplicate:
        """Submit and wait, shielded, for the commit.

        Raises:
            BusError: the refusal, by its code.
        """
        ...

    async def commit(self, part: Commit) -> Committed:
        """The same for a Commit."""
        ...

    async def take_lease(self, shard: int) -> Leased:
        """The same for a lease."""
        ...

    def wind_down(self) -> None:
        """The runtime begins to end: whoever waits for this store must not wait for ever.

        What the disk does not take within ten seconds from now is refused, and with it all that comes after it: with
        STORE_FULL or STORE_BUSY, or with STORE_IO where nobody knows. A store that can write goes on as before.
        """
        ...

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Write until cancelled; then finish what was submitted, mark the instance clean, close, unlock.

        Raises:
            BusError: STORE_IO, after three failures of one commit: what was open is answered with the same error.
        """
        ...

    def close(self) -> None:
        """Close and unlock a store whose `run` was never called; after that call it does nothing."""
        ...


__all__ = [
    "Caps",
    "HistoryRow",
    "Reader",
    "Settle",
    "Store",
    "StoreInfo",
    "StoredState",
]
