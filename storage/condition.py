"""How a store is doing, as its owner can tell without asking the disk."""

from __future__ import annotations

import attrs

from ..actors.errors import Code


@attrs.frozen
class LogState:
    """The write-ahead log of a store.

    Attributes:
        size_bytes: What it holds now; 0 for a store without one.
        pinned_s: For how long a reader has kept it from being begun anew; 0 while none does.
    """

    size_bytes: int = 0
    pinned_s: float = 0.0


@attrs.frozen(kw_only=True)
class StoreCondition:
    """How a store is doing.

    Attributes:
        code: What keeps commits waiting, such as STORE_FULL; None while none waits.
        waiting: How many.
        log: The write-ahead log.
    """

    code: Code | None = None
    waiting: int = 0
    log: LogState = LogState()


__all__ = ["LogState", "StoreCondition"]
