"""Timers that a turn has set and that have not come to their home yet: they wait among the emits of its shard.

Only with a store that relays emits. A cancel that finds its timer there takes it out there: carried to the timer's
home it could come before what it cancels, and would be for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..storage.commands import NewTimer
from .timer_rules import setter_of_schedule

if TYPE_CHECKING:
    from ..storage.commands import EmitNumber
    from ..storage.port import Store

# All of them: the relay keeps them few, and only a cancel asks.
_ALL: Final = 1_000_000


def pending_timer(store: Store, timer_id: str) -> EmitNumber | None:
    """The emit that will set this timer; None where none waits."""
    setter = setter_of_schedule(timer_id)
    if store.caps.emits == "atomic" or setter is None or setter >= store.info.shard_count:
        return None
    for number, part in store.reader.emits(setter, _ALL):
        if isinstance(part.row, NewTimer) and part.row.record.id == timer_id:
            return number
    return None


__all__ = ["pending_timer"]
