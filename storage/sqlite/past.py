"""Finds rows that are past their time, a page at a time in the order of their ids: no index is kept for it."""

# ruff: noqa: S608 (statements are put together from constants of this package alone; values are bound)

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from ..pruning import Ages, Past, Prune, PruneKind
from .prune import ENDED_OUTBOX
from .rows import Row

Found = tuple[int, int, int | None, int]
"""Id, when it began, when it ended (None: it has not, or is needed), 1 where it is empty."""

_MESSAGES: Final = (
    "SELECT id, accepted_at, CASE status WHEN 'done' THEN done_at WHEN 'refused' THEN accepted_at"
    " WHEN 'purged' THEN dead_at END, status = 'purged' OR emptied_at IS NOT NULL"
    " FROM inbox WHERE id > ? ORDER BY id LIMIT ?"
)
# A message that may run again finds its early sends; a text whose other parts wait keeps all.
_NEEDED: Final = (
    "EXISTS (SELECT 1 FROM inbox WHERE inbox.id = o.inbox_id AND inbox.status IN ('queued', 'running', 'failed'))"
    " OR EXISTS (SELECT 1 FROM outbox WHERE channel = o.channel AND idempotency_key = o.idempotency_key"
    f" AND part <> o.part AND NOT {ENDED_OUTBOX})"
)
_SENDS: Final = (
    f"SELECT id, created_at, CASE WHEN NOT {ENDED_OUTBOX} OR created_at > ?3 OR {_NEEDED} THEN NULL"
    " ELSE coalesce(purged_at, sent_at, updated_at) END, coalesce(purged_at, emptied_at) IS NOT NULL"
    " FROM outbox AS o WHERE id > ?1 ORDER BY id LIMIT ?2"
)
_EVENTS: Final = (
    "SELECT id, ts, topic, dedupe_key IS NULL, emptied_at IS NOT NULL FROM event WHERE id > ?"
    " ORDER BY id LIMIT ?"
)
_CONTROLS: Final = "SELECT n, created_at, done_at, 1 FROM control WHERE n > ? ORDER BY n LIMIT ?"
_INSTANCES: Final = (
    "SELECT id, opened_at, iif(id < (SELECT max(id) - 1 FROM instance), coalesce(closed_at, opened_at), NULL), 1"
    " FROM instance WHERE id > ? ORDER BY id LIMIT ?"
)
# The newest row stays: the numbers of those to come stand above it.
_HISTORY: Final = (
    "SELECT id, at FROM history WHERE id > ? AND id < (SELECT max(id) FROM history) ORDER BY id LIMIT ?"
)


class PastReads:
    """The part of a `Reader` that finds what is past its time."""

    if TYPE_CHECKING:

        def _query(self, statement: str, bindings: Row = ()) -> list[Row]: ...

    def past(self, kind: PruneKind, ages: Ages, after: int, limit: int) -> Past:
        """See `Reader`."""
        if kind == "history":
            return _history(cast("list[tuple[int, int]]", self._query(_HISTORY, (after, limit))), ages, limit)
        if kind == "events":
            return _events(cast("list[_EventRow]", self._query(_EVENTS, (after, limit))), ages, limit)
        content_us, keys_us = ages.content_us, ages.keys_us
        if kind == "messages":
            rows = self._query(_MESSAGES, (after, limit))
        elif kind == "sends":
            rows = self._query(_SENDS, (after, limit, ages.content_us))
        elif kind == "controls":
            rows, content_us = self._query(_CONTROLS, (after, limit)), ages.keys_us
        else:
            rows = self._query(_INSTANCES, (after, limit))
            content_us = keys_us = ages.history_us
        return _rows(kind, cast("list[Found]", rows), content_us, keys_us, limit)


def _rows(kind: PruneKind, rows: list[Found], content_us: int, keys_us: int, limit: int) -> Past:
    gone: list[int] = []
    emptied: list[int] = []
    after = _after([(row_id, began_us) for row_id, began_us, _, _ in rows], content_us, limit)
    for row_id, _, ended_us, is_empty in rows:
        if ended_us is None:
            continue
        if ended_us <= keys_us:
            gone.append(row_id)
        elif ended_us <= content_us and not is_empty:
            emptied.append(row_id)
    return _past(Prune(kind=kind, rows=tuple(gone), emptied=tuple(emptied)), after)


_EventRow = tuple[int, int, str, int, int]
"""Id, time, topic, 1 without a key, 1 where it is empty."""


def _events(rows: list[_EventRow], ages: Ages, limit: int) -> Past:
    topics = dict(ages.topics)
    newest_us = max([ages.content_us, *topics.values()])
    gone: list[int] = []
    emptied: list[int] = []
    after = _after([(row_id, ts_us) for row_id, ts_us, *_ in rows], newest_us, limit)
    for row_id, ts_us, topic, is_keyless, is_empty in rows:
        if ts_us > topics.get(topic, ages.content_us):
            continue
        if is_keyless or ts_us <= ages.keys_us:
            gone.append(row_id)
        elif not is_empty:
            emptied.append(row_id)
    return _past(Prune(kind="events", rows=tuple(gone), emptied=tuple(emptied)), after)


def _history(rows: list[tuple[int, int]], ages: Ages, limit: int) -> Past:
    count = next((place for place, (_, at_us) in enumerate(rows) if at_us > ages.history_us), len(rows))
    if not count:
        return _past(Prune(kind="history"), None)
    last = rows[count - 1][0]
    return Past(
        prune=Prune(kind="history", rows=(last,)), count=count, after=last if count == limit else None
    )


def _after(rows: list[tuple[int, int]], past_us: int, limit: int) -> int | None:
    """Where the next page begins: ids grow with time, so a whole page of what began later is the end.

    Not the first such row: it may have been written while the clock was wrong.
    """
    if len(rows) < limit or all(began_us > past_us for _, began_us in rows):
        return None
    return rows[-1][0]


def _past(prune: Prune, after: int | None) -> Past:
    return Past(prune=prune, count=len(prune.rows) + len(prune.emptied), after=after)
