"""Whether messages and sends are as their history left them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from types import TracebackType
from typing import Final, Self, cast

import apsw
import attrs

from ..port import HistoryRow
from ..records import InboxStatus, OutboxState
from .database import close_connection

_PAGE_ROWS: Final = 2_000
_FINAL: Final = frozenset(
    {InboxStatus.DONE, InboxStatus.REFUSED, InboxStatus.PURGED, OutboxState.SENT, OutboxState.PURGED}
)
"""What retention may take away, row and all."""

_MAKE: Final = (
    "CREATE TABLE last (kind TEXT, identity INTEGER, state TEXT, claim INTEGER, shard INTEGER,"
    " PRIMARY KEY (kind, identity)) WITHOUT ROWID"
)
_TAKE: Final = "INSERT OR REPLACE INTO last VALUES (?, ?, ?, ?, ?)"
_LAST: Final = (
    "SELECT identity, state, claim, shard FROM last WHERE kind = ? AND identity > ? ORDER BY identity LIMIT ?"
)
_SINCE: Final = "SELECT 1 FROM history WHERE id > ? AND kind = ? AND identity = ? LIMIT 1"
_ROWS: Final = {
    "in": "SELECT id, status, claim, shard FROM inbox WHERE id > ? AND id <= ? ORDER BY id",
    "out": (
        "SELECT id, CASE WHEN purged_at IS NOT NULL THEN 'purged' WHEN dead_at IS NOT NULL THEN 'dead'"
        " WHEN status <> 'pending' THEN status WHEN in_flight THEN 'flying'"
        " WHEN uncertain_since IS NOT NULL THEN 'uncertain' ELSE 'ready' END,"
        " claim, shard FROM outbox WHERE id > ? AND id <= ? ORDER BY id"
    ),
}

State = tuple[str, int, int]
"""state, claim, shard."""


@attrs.frozen
class StateFault:
    """A row that is not as its history left it."""

    row: str
    shard: int
    text: str


class LastStates:
    """The last transition of every row, on a disk of its own: a store may have more rows than memory has room for."""

    def __init__(self) -> None:
        # The empty name is a file that SQLite makes and takes away itself.
        self._last = apsw.Connection("")

    def __enter__(self) -> Self:
        self._last.execute("PRAGMA journal_mode = OFF").fetchall()
        self._last.execute("PRAGMA synchronous = OFF")
        self._last.execute(_MAKE)
        self._last.execute("BEGIN")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close_connection(self._last)

    def take(self, rows: Iterable[HistoryRow]) -> None:
        """Note where rows were left, in the order it was written."""
        self._last.executemany(
            _TAKE, [(row.kind, row.identity, row.after, row.claim, row.shard) for row in rows]
        )

    def compare(self, database: apsw.Connection, last_id: int, pruned: Set[int]) -> Iterator[StateFault]:
        """Compare what was noted with the rows themselves.

        Args:
            database: The store.
            last_id: The last history row that was noted; a row that has moved on since is none of ours.
            pruned: Shards whose oldest history is gone: a row of theirs may have none left.
        """
        for kind, statement in _ROWS.items():
            after = 0
            while True:
                noted = self._page(kind, after)
                full = len(noted) == _PAGE_ROWS
                end = max(noted) if full else 2**63 - 1
                rows = {
                    identity: (state, claim, shard)
                    for identity, state, claim, shard in cast(
                        "list[tuple[int, str, int, int]]",
                        database.execute(statement, (after, end)).fetchall(),
                    )
                }
                for identity in sorted(noted.keys() | rows.keys()):
                    text = self._fault(noted.get(identity), rows.get(identity), pruned)
                    if text is not None and not _has_moved(database, last_id, kind, identity):
                        shard = (rows.get(identity) or noted[identity])[2]
                        yield StateFault(f"{kind}-{identity}", shard, text)
                if not full:
                    break
                after = end

    def _page(self, kind: str, after: int) -> dict[int, State]:
        found = cast(
            "list[tuple[int, str, int, int]]", self._last.execute(_LAST, (kind, after, _PAGE_ROWS)).fetchall()
        )
        return {identity: (state, claim, shard) for identity, state, claim, shard in found}

    @staticmethod
    def _fault(noted: State | None, row: State | None, pruned: Set[int]) -> str | None:
        if row is None:
            if noted is None or noted[0] in _FINAL:
                return None
            return f"is not there; its history left it {noted[0]}"
        if noted is None:
            return None if row[2] in pruned else f"is {row[0]}, and has no history"
        if noted != row:
            return f"is {_told(row)}; its history left it {_told(noted)}"
        return None


def _has_moved(database: apsw.Connection, last_id: int, kind: str, identity: int) -> bool:
    return bool(database.execute(_SINCE, (last_id, kind, identity)).fetchall())


def _told(state: State) -> str:
    return f"{state[0]} under claim {state[1]} in shard {state[2]}"
