"""The numbers a transaction draws from: copies are planned with, and published only after COMMIT."""

from __future__ import annotations

from typing import Self, cast

import apsw
import attrs

from ..commands import NewEvent, NewInbox, NewOutbox, NewRow
from . import sql

Place = tuple[str, int]
"""(topic, partition)."""


class UnknownPlaceError(LookupError):
    """A partition whose end was not read from the store yet."""


@attrs.define(kw_only=True)
class Numbers:
    """Where every counter of the store stands.

    Attributes:
        commit_seq: Transactions so far.
        change_seq: Row changes of inbox and outbox so far.
        next_inbox_id, next_outbox_id, next_event_id: Above every id stored so far.
        retried_turns, retried_sends: Transitions to failed so far.
        open_messages: Inbox rows that are queued, running or failed; counted at opening, stored nowhere.
        epochs, seqs, hseqs, heads: By shard: lease epoch, last seq, last history row and its hash.
        offsets: Next offset of each partition of a conversation topic that was met.
        events: (next offset, last time) of each partition of an event topic that was met.
        own_offsets, own_events: What this copy has drawn beyond `offsets` and `events`, which copies share: there
            may be many partitions, and a commit touches few.
    """

    commit_seq: int
    change_seq: int
    next_inbox_id: int
    next_outbox_id: int
    next_event_id: int
    retried_turns: int
    retried_sends: int
    open_messages: int
    epochs: list[int]
    seqs: list[int]
    hseqs: list[int]
    heads: list[bytes]
    offsets: dict[Place, int]
    events: dict[Place, tuple[int, int]]
    own_offsets: dict[Place, int]
    own_events: dict[Place, tuple[int, int]]

    def fork(self) -> Self:
        """A copy to draw from."""
        # Spelled out: one a commit, and attrs.evolve costs three times as much.
        return type(self)(
            commit_seq=self.commit_seq,
            change_seq=self.change_seq,
            next_inbox_id=self.next_inbox_id,
            next_outbox_id=self.next_outbox_id,
            next_event_id=self.next_event_id,
            retried_turns=self.retried_turns,
            retried_sends=self.retried_sends,
            open_messages=self.open_messages,
            epochs=self.epochs.copy(),
            seqs=self.seqs.copy(),
            hseqs=self.hseqs.copy(),
            heads=self.heads.copy(),
            offsets=self.offsets,
            events=self.events,
            own_offsets=self.own_offsets.copy(),
            own_events=self.own_events.copy(),
        )

    def settle(self) -> None:
        """Make what was drawn the new base, once it is on disk."""
        self.offsets.update(self.own_offsets)
        self.own_offsets.clear()
        self.events.update(self.own_events)
        self.own_events.clear()

    def take_offset(self, place: Place) -> int:
        """Draw the next offset of a conversation topic's partition.

        Raises:
            UnknownPlaceError: its end must be read first.
        """
        offset = self.own_offsets.get(place)
        if offset is None:
            offset = self.offsets.get(place)
            if offset is None:
                raise UnknownPlaceError(place)
        self.own_offsets[place] = offset + 1
        return offset

    def take_event(self, place: Place, at_us: int) -> tuple[int, int]:
        """Draw (offset, time) in an event topic's partition; times of a partition never fall.

        Raises:
            UnknownPlaceError: its end must be read first.
        """
        end = self.own_events.get(place) or self.events.get(place)
        if end is None:
            raise UnknownPlaceError(place)
        offset, last_us = end
        ts_us = max(at_us, last_us)
        self.own_events[place] = (offset + 1, ts_us)
        return offset, ts_us

    def reserve_id(self, row: NewRow) -> None:
        """A waiting emit keeps its row's id: no accept of a later opening may take it."""
        if isinstance(row, NewInbox):
            self.next_inbox_id = max(self.next_inbox_id, row.record.id + 1)
        elif isinstance(row, NewOutbox):
            self.next_outbox_id = max(self.next_outbox_id, row.record.id + 1)
        elif isinstance(row, NewEvent):
            self.next_event_id = max(self.next_event_id, row.id + 1)


def read_numbers(database: apsw.Connection) -> Numbers:
    """Read where the counters stand on disk."""
    (store,) = cast(
        "list[tuple[int, int, int, int, int, int, int]]", database.execute(sql.READ_STORE).fetchall()
    )
    ((open_messages,),) = cast("list[tuple[int]]", database.execute(sql.COUNT_OPEN_INBOX).fetchall())
    shards = cast("list[tuple[int, int, int, bytes]]", database.execute(sql.READ_SHARDS).fetchall())
    return Numbers(
        commit_seq=store[0],
        change_seq=store[1],
        next_inbox_id=store[2],
        next_outbox_id=store[3],
        next_event_id=store[4],
        retried_turns=store[5],
        retried_sends=store[6],
        open_messages=open_messages,
        epochs=[shard[0] for shard in shards],
        seqs=[shard[1] for shard in shards],
        hseqs=[shard[2] for shard in shards],
        heads=[shard[3] for shard in shards],
        offsets={},
        events={},
        own_offsets={},
        own_events={},
    )
