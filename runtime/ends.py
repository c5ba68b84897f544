"""Who waits for the end of a message or of a send: told by the commit that ends it, whatever becomes of its shard."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import trio

from ..actors.errors import BusError, Code
from ..storage.commands import Commit
from ..storage.records import InboxRecord, InboxStatus, OutboxRecord, OutboxState

R = TypeVar("R", InboxRecord, OutboxRecord)

_MESSAGE_ENDS: Final = frozenset(
    {
        InboxStatus.DONE,
        InboxStatus.DEAD,
        InboxStatus.PARKED,
        InboxStatus.REFUSED,
        InboxStatus.PURGED,
    }
)


def has_ended(record: InboxRecord) -> bool:
    """Whether nothing happens to this message any more unless a person wants it."""
    return record.status in _MESSAGE_ENDS


def send_has_ended(record: OutboxRecord) -> bool:
    """Whether this send is sent, dead, or left to a person."""
    match record.state:
        case OutboxState.SENT | OutboxState.DEAD | OutboxState.PURGED:
            return True
        case OutboxState.UNCERTAIN:
            return record.next_attempt_at_us is None
        case _:
            return False


class Ends:
    """Those who wait for the end of a row. Without any of them it costs nothing.

    Attributes:
        waiting: How many wait.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._is_closed = False
        self._messages: _Waits[InboxRecord] = _Waits()
        self._sends: _Waits[OutboxRecord] = _Waits()

    def committed(self, commit: Commit) -> None:
        """Tell those who wait for what a Commit ends; to be called when it is on disk."""
        for move in commit.inbox:
            if has_ended(move.after):
                self._messages.tell(move.after)
        # The last of several transitions of a row counts.
        for sent in reversed(commit.outbox):
            if send_has_ended(sent.after):
                self._sends.tell(sent.after)

    def left_to_a_person(self, record: OutboxRecord) -> None:
        """The channel could not tell whether this send went out: nothing but a decision ends it."""
        self._sends.tell(record)

    async def wait_message(self, row_id: int) -> InboxRecord:
        """Wait for the end of a message that was found open; the look and this call without a wait in between.

        Raises:
            BusError: BUS_CLOSED, the runtime stops first; the message goes on at the next start.
        """
        return await self._wait(self._messages, row_id)

    async def wait_send(self, row_id: int) -> OutboxRecord:
        """The same for a send."""
        return await self._wait(self._sends, row_id)

    def close(self) -> None:
        """Nothing ends any more in this run: those who wait are told so."""
        self._is_closed = True
        self._messages.close()
        self._sends.close()

    async def _wait(self, waits: _Waits[R], row_id: int) -> R:
        if self._is_closed:
            raise _closed(row_id)
        self.waiting += 1
        try:
            return await waits.wait(row_id)
        finally:
            self.waiting -= 1


class _Waits(Generic[R]):
    """Waits for rows of one kind, by row id."""

    def __init__(self) -> None:
        self._by_row: dict[int, list[_Wait[R]]] = {}

    def tell(self, record: R) -> None:
        for wait in self._by_row.pop(record.id, ()):
            wait.record = record
            wait.is_over.set()

    def close(self) -> None:
        for waits in self._by_row.values():
            for wait in waits:
                wait.is_over.set()
        self._by_row.clear()

    async def wait(self, row_id: int) -> R:
        wait: _Wait[R] = _Wait()
        self._by_row.setdefault(row_id, []).append(wait)
        try:
            await wait.is_over.wait()
        except trio.Cancelled:
            self._leave(row_id, wait)
            raise
        if wait.record is None:
            raise _closed(row_id)
        return wait.record

    def _leave(self, row_id: int, wait: _Wait[R]) -> None:
        waits = self._by_row.get(row_id, [])
        if wait in waits:
            waits.remove(wait)
            if not waits:
                del self._by_row[row_id]


class _Wait(Generic[R]):
    """One who waits."""

    def __init__(self) -> None:
        self.is_over = trio.Event()
        self.record: R | None = None


def _closed(row_id: int) -> BusError:
    return BusError(Code.BUS_CLOSED, "the runtime stops before this has ended", row_id=row_id)


__all__ = ["Ends", "has_ended", "send_has_ended"]
