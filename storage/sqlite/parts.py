"""Reads about the parts of one text, and about what a send is held by."""

# ruff: noqa: S608 (statements are put together from constants of this package alone; values are bound)

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..records import StoredOutbox
from .rows import Row, read_outbox
from .sql import OUTBOX_RECORD

# A dead row keeps the time of its death when it is emptied.
UNSETTLED: Final = "(uncertain_since IS NOT NULL OR dead_at IS NOT NULL)"

_PARTS: Final = (
    f"SELECT {OUTBOX_RECORD}, inbox_id, codec, body FROM outbox"
    " WHERE channel = ? AND idempotency_key = ? ORDER BY part"
)
_HELD: Final = (
    f"SELECT 1 FROM outbox WHERE channel = ? AND idempotency_key = ? AND part < ? AND {UNSETTLED} LIMIT 1"
)
_BLOCKED: Final = (
    "SELECT 1 FROM outbox INDEXED BY outbox_open WHERE shard = ? AND conversation_key = ?"
    " AND (seq, part) < (?, ?) AND status <> 'sent' AND dead_at IS NULL AND uncertain_since IS NOT NULL LIMIT 1"
)


class PartReads:
    """The part of a `Reader` that is about texts of several parts."""

    if TYPE_CHECKING:

        def _query(self, statement: str, bindings: Row = ()) -> list[Row]: ...

    def text_parts(self, channel: str, idempotency_key: str) -> list[StoredOutbox]:
        """See `Reader`."""
        return [read_outbox(row) for row in self._query(_PARTS, (channel, idempotency_key))]

    def is_held(self, channel: str, idempotency_key: str, part: int) -> bool:
        """See `Reader`."""
        return bool(self._query(_HELD, (channel, idempotency_key, part)))

    def is_blocked(self, shard: int, key: str, before_seq: int, before_part: int) -> bool:
        """See `Reader`."""
        return bool(self._query(_BLOCKED, (shard, key, before_seq, before_part)))
