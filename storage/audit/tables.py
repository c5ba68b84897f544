"""What an export holds: the tables, their columns, and how each grows. Plain data, neither Spark nor Arrow."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, Literal

import attrs

Kind = Literal["int", "text", "blob"]
"""int is 64 bits: ids, counts, flags, and times in microseconds since 1970 UTC."""


class Growth(enum.Enum):
    """What a second export of the same store adds."""

    CHANGES = "rows that changed since; the newest of each id counts"
    APPENDS = "rows that are new"
    WHOLE = "everything; the newest export counts"


@attrs.frozen
class Column:
    """One column: its name, its kind, and where it comes from if not from the column of that name."""

    name: str
    kind: Kind
    source: str | None = None


@attrs.frozen(kw_only=True)
class Table:
    """One exported table.

    Attributes:
        day: The column whose UTC day is the partition `dt`; None, there are no partitions.
        by_channel: It is also partitioned by `channel`.
        has_ids: Its rows have an `id`, by which they are read in parts.
    """

    name: str
    growth: Growth
    columns: tuple[Column, ...]
    day: str | None = None
    by_channel: bool = False
    has_ids: bool = False

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the folders below the store's own."""
        return (("dt",) if self.day else ()) + (("channel",) if self.by_channel else ())


def _columns(ints: str, texts: str = "", blobs: str = "") -> tuple[Column, ...]:
    return (
        *(Column(name, "int") for name in ints.split()),
        *(Column(name, "text") for name in texts.split()),
        *(Column(name, "blob") for name in blobs.split()),
    )


CONTENT_HASH: Final = Column("content_hash", "text", "body")
"""SHA-256 of what a send says, NULL once that is gone; the text itself is not exported."""

CHANNEL: Final = Column("channel", "text")
"""Stands in the names of an export's folders, and in a store in the rows."""

TABLES: Final[Mapping[str, Table]] = {
    table.name: table
    for table in (
        Table(
            name="inbox",
            growth=Growth.CHANGES,
            has_ids=True,
            day="accepted_at",
            by_channel=True,
            columns=_columns(
                "id shard seq part off claim failures crashes generation epoch accepted_at started_at done_at dead_at"
                " next_at change_seq created_at hops",
                "topic conversation_key status error_code own_code dedupe_key platform_message_id idempotency_key",
            ),
        ),
        Table(
            name="outbox",
            growth=Growth.CHANGES,
            has_ids=True,
            day="created_at",
            by_channel=True,
            columns=(
                *_columns(
                    "id shard seq part in_flight claim attempts deduped generation created_at updated_at"
                    " last_attempt_at sent_at next_attempt_at uncertain_since dead_at purged_at change_seq inbox_id",
                    "idempotency_key conversation_key status platform_message_id error_code own_code",
                ),
                CONTENT_HASH,
            ),
        ),
        Table(
            name="history",
            growth=Growth.APPENDS,
            has_ids=True,
            day="at",
            columns=_columns("shard hseq identity claim at instance", "kind from to event code", "h"),
        ),
        Table(
            name="event",
            growth=Growth.APPENDS,
            has_ids=True,
            day="ts",
            columns=_columns("id shard part off ts", "topic key"),
        ),
        Table(name="log_end", growth=Growth.WHOLE, columns=_columns("part off ts", "topic")),
        Table(name="anchor", growth=Growth.WHOLE, columns=_columns("shard hseq at", "", "h")),
        Table(name="shard", growth=Growth.WHOLE, columns=_columns("shard epoch instance seq hseq", "", "h")),
        Table(
            name="instance",
            growth=Growth.WHOLE,
            columns=_columns("id epoch pid opened_at closed_at clean", "host"),
        ),
    )
}
"""By name."""
