"""What a runtime in an asyncio program may be opened with: the arguments of `Runtime.open` that make sense there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Required, TypedDict

from ...actors.clock import Clock
from ...actors.failpoints import FailPoints
from ...storage.port import Store
from ..breaker import Breaker
from ..channel import Adapter
from ..retention import Retention
from ..retry import RetryPolicy
from ..tracing import Tracing


class Options(TypedDict, total=False):
    """As in `Runtime.open`. An adapter written for asyncio goes through `asyncio_adapter` first."""

    store: Required[str | Path | Store]
    adapters: Sequence[Adapter]
    durability: Literal["full", "normal"]
    mode: Literal["thread", "inline"]
    shard_count: int
    max_inflight: int
    max_lane_backlog: int
    max_backlog: int
    unhandled: Literal["refuse", "park"]
    unsafe_filesystem: Literal["refuse", "allow"]
    send_retry: RetryPolicy | None
    send_breaker: Breaker | None
    retention: Retention | None
    tracing: Tracing | None
    grace_s: float
    clock: Clock | None
    seed: int | None
    failpoints: FailPoints


__all__ = ["Options"]
