"""The gate that lets suspects run first.

After a crash, rows that were claimed more than once when the process died are suspects: any of them may be what kills
it. They run before everything else and only a few at once, so that the guilty one is found without its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Gate:
    """Open without suspects; closed to everybody else until the first turn of each suspect has ended.

    Args:
        suspects: Ids of inbox rows.
        at_once: Suspects under way at once, >= 1.
        changed: Called when a suspect has ended: another one, or everybody, may start.
    """

    def __init__(self, suspects: Iterable[int], *, at_once: int, changed: Callable[[], None]) -> None:
        self._pending = set(suspects)
        self._running: set[int] = set()
        self._at_once = at_once
        self._changed = changed
        self.is_open = not self._pending
        """Whether everybody may start."""

    def enter(self, row_id: int) -> bool:
        """Whether this row may start now; who may not asks again after `changed`."""
        if self.is_open:
            return True
        if row_id not in self._pending or len(self._running) >= self._at_once:
            return False
        self._pending.discard(row_id)
        self._running.add(row_id)
        return True

    @property
    def awaited(self) -> list[int]:
        """The rows that keep it shut: those that have not run, and those that run."""
        return [*self._pending, *self._running]

    def again(self, row_id: int) -> None:
        """The run that let this row in has crashed: it enters once more."""
        self._running.discard(row_id)
        self._pending.add(row_id)

    def leave(self, row_id: int) -> None:
        """The turn of a row has ended, or the row will not run."""
        if self.is_open:
            return
        self._pending.discard(row_id)
        self._running.discard(row_id)
        self.is_open = not self._pending and not self._running
        self._changed()
