"""How a store is doing, as its owner can tell without asking the disk."""

from __future__ import annotations

from typing import Literal

import attrs

from ..actors.errors import Code

Moved = Literal["file", "lock", "log"]
"""Which file of a store is no longer where the next start, or another owner, looks for it."""


@attrs.frozen
class LogState:
    """The write-ahead log of a store.

    Attributes:
        size_bytes: What it holds now; 0 for a store without one.
        pinned_s: For how long a reader has kept it from being begun anew; 0 while none does.
        is_own: The store itself reads, and may be that reader.
    """

    size_bytes: int = 0
    pinned_s: float = 0.0
    is_own: bool = False


@attrs.frozen(kw_only=True)
class StoreCondition:
    """How a store is doing.

    Attributes:
        code: What keeps commits waiting, such as STORE_FULL; None while none waits.
        waiting: How many.
        log: The write-ahead log.
        moved: What was moved, replaced or deleted while the store is open; None for nothing.
    """

    code: Code | None = None
    waiting: int = 0
    log: LogState = LogState()
    moved: Moved | None = None


__all__ = ["LogState", "Moved", "StoreCondition"]
