"""Rows of conversations, in memory and on a disk that is none."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable

import attrs

from shardline.runtime.pool import Job


@attrs.define(eq=False)
class Row:
    """A row in memory."""

    key: str
    number: int
    seq: int = 0
    holds_token: bool = False
    is_urgent: bool = False


class Disk:
    """Open rows by conversation: seq to the number of the message."""

    def __init__(self) -> None:
        self.open: dict[str, dict[int, int]] = {}

    def page(self, after: str, room: int) -> list[tuple[str, list[Row] | None]]:
        """The first conversation after `after` with open rows, and now and then those rows."""
        key = min((key for key, rows in self.open.items() if rows and key > after), default=None)
        return [] if key is None else [(key, self.rows(key, 0, 99) if len(key) % 2 else None)]

    def rows(self, key: str, after_seq: int, limit: int) -> list[Row]:
        """Its open rows in order, as fresh objects."""
        rows = sorted(self.open.get(key, {}).items())
        return [Row(key, number, seq) for seq, number in rows if seq > after_seq][:limit]


class Words:
    """What a run of the shard was told of rows: numbers by conversation."""

    def __init__(self) -> None:
        self.known: defaultdict[str, set[int]] = defaultdict(set)
        self.untold: defaultdict[str, set[int]] = defaultdict(set)
        self._over: set[int] = set()

    def stored(self, row: Row) -> None:
        """It is on disk; who did not offer it is told later."""
        if row.number not in self.known[row.key]:
            self.untold[row.key].add(row.number)

    def told(self, row: Row) -> None:
        """The word of it has come."""
        self.untold[row.key].discard(row.number)
        if row.number not in self._over:
            self.known[row.key].add(row.number)

    def ended(self, row: Row) -> None:
        """It is open no more."""
        self._over.add(row.number)
        self.known[row.key].discard(row.number)

    def start_anew(self, disk: Disk, handled: Iterable[int]) -> None:
        """A new run reads all that is on disk; what the old one was told counts no more."""
        self._over.update(handled)
        self.untold.clear()
        self.known = defaultdict(set, {key: set(rows.values()) for key, rows in disk.open.items()})


class Journal:
    """Parts of a shard: each is submitted, then committed, then settled, in the order of submission."""

    def __init__(self) -> None:
        self.epoch = 0
        self.submitted: deque[tuple[Callable[[], None], Callable[[], None]]] = deque()
        self.committed: deque[Callable[[], None]] = deque()

    def submit(
        self, commit: Callable[[], None], settle: Callable[[], None], late: Callable[[], None] | None = None
    ) -> None:
        """Take a part of this run; `late` is called in place of `settle` where a later one is told."""
        epoch = self.epoch

        def settled() -> None:
            # What was settled for a run that crashed is on disk, and the next run has read it there.
            if epoch == self.epoch:
                settle()
            elif late is not None:
                late()

        self.submitted.append((commit, settled))

    def commit(self) -> None:
        """Store the next part."""
        commit, settle = self.submitted.popleft()
        commit()
        self.committed.append(settle)

    def settle(self) -> None:
        """Tell of the next part that is stored."""
        self.committed.popleft()()


async def no_work(_: Job) -> None:
    """The work of a pool whose slots are counted and never used."""
    raise AssertionError("no job runs here")
