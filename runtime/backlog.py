"""What a shard's lanes read from the store."""

from __future__ import annotations

from ..storage.port import Reader
from .send import PendingRow, split_place
from .turn import QueuedRow


class InboxBacklog:
    """The stored open messages of one shard."""

    def __init__(self, reader: Reader, shard: int) -> None:
        self._reader = reader
        self._shard = shard

    def next_key(self, after: str) -> str | None:
        """The next conversation with open rows."""
        return self._reader.next_inbox_key(self._shard, after)

    def rows(self, key: str, after_seq: int, limit: int) -> list[QueuedRow]:
        """Open rows of one conversation; read from disk, they hold no token."""
        stored = self._reader.inbox_lane(self._shard, key, after_seq, limit)
        return [QueuedRow(row.record, row.message, holds_token=False) for row in stored]


class OutboxBacklog:
    """The stored open sends of one shard, those that wait for a person too."""

    def __init__(self, reader: Reader, shard: int) -> None:
        self._reader = reader
        self._shard = shard

    def next_key(self, after: str) -> str | None:
        """The next conversation with open rows."""
        return self._reader.next_outbox_key(self._shard, after)

    def rows(self, key: str, after_seq: int, limit: int) -> list[PendingRow]:
        """Open rows of one conversation; `after_seq` is a place in the lane."""
        seq, part = split_place(after_seq)
        stored = self._reader.outbox_lane(self._shard, key, seq, limit, after_part=part)
        return [PendingRow(row.record, row.content) for row in stored]
