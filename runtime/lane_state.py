"""What a lane remembers of its conversation's state, so that a busy conversation reads it once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from ..storage.port import Reader, StoredState
from .defaults import WARM_STATE_BYTES

if TYPE_CHECKING:
    from ..storage.commands import StateWrite
    from .lane import Lane
    from .turn import QueuedRow

# A lane's memo before the state was read is None; this one says that there is none on disk.
_NOTHING: Final = StoredState(b"", 0)


def recall(lane: Lane[QueuedRow], reader: Reader) -> StoredState | None:
    """The conversation's state as it is on disk: read once, then kept with the lane until that is evicted."""
    if lane.memo is None:
        _keep(lane, reader.state(lane.key) or _NOTHING)
    known = cast("StoredState", lane.memo)
    return None if known is _NOTHING else known


def remember(lane: Lane[QueuedRow], write: StateWrite) -> None:
    """That write is on disk."""
    _keep(lane, _NOTHING if write.value is None else StoredState(write.value, write.version))


def _keep(lane: Lane[QueuedRow], known: StoredState) -> None:
    lane.memo = known
    lane.is_heavy = len(known.value) > WARM_STATE_BYTES
