"""Which rows a listing is of: a frozen value, and the conditions it stands for. Values are bound, never spliced in."""

from __future__ import annotations

from typing import Final, Literal

import attrs

from ...actors.keys import shard_of
from ..records import InboxStatus, OutboxState
from .reader import OUTBOX_CONDITIONS, inbox_condition
from .rows import Row

Kind = Literal["in", "out"]


HELD: Final = (
    "part > 0 AND status <> 'sent' AND dead_at IS NULL AND uncertain_since IS NULL AND NOT in_flight AND EXISTS"
    " (SELECT 1 FROM outbox AS earlier WHERE earlier.channel = outbox.channel"
    " AND earlier.idempotency_key = outbox.idempotency_key AND earlier.part < outbox.part"
    " AND (earlier.uncertain_since IS NOT NULL OR earlier.dead_at IS NOT NULL))"
)


@attrs.frozen(kw_only=True)
class Filters:
    """What rows have in common; None is anything.

    Attributes:
        kind: Messages (`in`) or sends (`out`).
        is_held: A part of a text behind one that waits for a decision.
        code, own_code: Of the newest failure.
        part: Partition of a message, part of a send.
        since_us, until_us: Both ends count. For a list of dead rows it is the time of death, else of arrival.
    """

    kind: Kind | None = None
    id: int | None = None
    key: str | None = None
    topic: str | None = None
    channel: str | None = None
    status: InboxStatus | None = None
    state: OutboxState | None = None
    is_held: bool = False
    code: str | None = None
    own_code: str | None = None
    part: int | None = None
    since_us: int | None = None
    until_us: int | None = None


NO_FILTERS = Filters()

Where = tuple[str, Row]
"""Conditions joined by AND, and what they bind."""


def inbox_where(filters: Filters, shard_count: int, *, time: str = "accepted_at") -> Where | None:
    """The conditions over the table inbox, None if it has no such row.

    Args:
        time: The column that since and until are about.
    """
    return _joined(
        filters.kind in {None, "in"} and filters.state is None and not filters.is_held,
        None if filters.status is None else inbox_condition(filters.status),
        [*_common(filters, time), ("topic = ?", filters.topic)],
        filters,
        shard_count,
    )


def outbox_where(filters: Filters, shard_count: int, *, time: str = "created_at") -> Where | None:
    """The conditions over the table outbox, None if it has no such row; a send has no topic."""
    return _joined(
        filters.kind in {None, "out"} and filters.status is None and filters.topic is None,
        HELD if filters.is_held else None if filters.state is None else OUTBOX_CONDITIONS[filters.state],
        _common(filters, time),
        filters,
        shard_count,
    )


def _common(filters: Filters, time: str) -> list[tuple[str, int | str | None]]:
    return [
        ("id = ?", filters.id),
        ("channel = ?", filters.channel),
        ("error_code = ?", filters.code),
        ("own_code = ?", filters.own_code),
        ("part = ?", filters.part),
        (f"{time} >= ?", filters.since_us),
        (f"{time} <= ?", filters.until_us),
    ]


def _joined(
    has_any: bool,
    state: str | None,
    conditions: list[tuple[str, int | str | None]],
    filters: Filters,
    shard_count: int,
) -> Where | None:
    if not has_any:
        return None
    texts = [] if state is None else [f"({state})"]
    bound: Row = ()
    if filters.key is not None:
        # The shard lets the index of the open rows serve.
        texts.append("shard = ? AND conversation_key = ?")
        bound = (shard_of(filters.key, shard_count), filters.key)
    for text, value in conditions:
        if value is not None:
            texts.append(text)
            bound = (*bound, value)
    return " AND ".join(texts) or "1", bound
