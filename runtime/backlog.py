"""What a shard's lanes read from the store."""

from __future__ import annotations

import itertools
from typing import Final

from ..storage.port import Reader
from .lane import Lane
from .send import PendingRow, split_place
from .turn import QueuedRow

PAGE_ROWS: Final = 32
"""Sends that a scan reads at once."""


class InboxBacklog:
    """The stored open messages of one shard."""

    def __init__(self, reader: Reader, shard: int) -> None:
        self._reader = reader
        self._shard = shard

    def page(self, after: str, room: int) -> list[tuple[str, list[QueuedRow] | None]]:
        """The next conversation with open rows."""
        key = self._reader.next_inbox_key(self._shard, after)
        return [] if key is None else [(key, None)]

    def rows(self, key: str, after_seq: int, limit: int) -> list[QueuedRow]:
        """Open rows of one conversation; read from disk, they hold no token."""
        stored = self._reader.inbox_lane(self._shard, key, after_seq, limit)
        return [QueuedRow(row.record, row.message, holds_token=False) for row in stored]


class OutboxBacklog:
    """The stored open sends of one shard, those that wait for a person too."""

    def __init__(self, reader: Reader, shard: int) -> None:
        self._reader = reader
        self._shard = shard

    def page(self, after: str, room: int) -> list[tuple[str, list[PendingRow] | None]]:
        """The next conversations with open rows: a broadcast is one row in each of many, read together."""
        limit = min(PAGE_ROWS, room)
        stored = self._reader.outbox_page(self._shard, after, limit)
        found: list[tuple[str, list[PendingRow] | None]] = [
            (key, [PendingRow(row.record, row.content) for row in rows])
            for key, rows in itertools.groupby(stored, lambda row: row.record.conversation_key)
        ]
        if len(stored) == limit:
            # The last one may have more rows than were read.
            key = found.pop()[0]
            if not found:
                found.append((key, None))
        return found

    def rows(self, key: str, after_seq: int, limit: int) -> list[PendingRow]:
        """Open rows of one conversation; `after_seq` is a place in the lane."""
        seq, part = split_place(after_seq)
        stored = self._reader.outbox_lane(self._shard, key, seq, limit, after_part=part)
        return [PendingRow(row.record, row.content) for row in stored]


def is_clear(lane: Lane[PendingRow], reader: Reader, shard: int) -> bool:
    """Whether a lane of which only the disk knows has nothing open there; it then counts as one that is known.

    Beside a broadcast that overflows the window nobody knows what lies on disk of a conversation not met for a while.
    One read answers that; without it each answer would wait for a page, and start with a commit of its own.
    """
    if not lane.is_on_disk or lane.paused:
        return False
    seq, part = split_place(lane.last_seq)
    lane.more = bool(reader.outbox_lane(shard, lane.key, seq, 1, after_part=part))
    return not lane.more
