"""How one store file is opened."""

from __future__ import annotations

from typing import Final, Literal

import attrs

Durability = Literal["full", "normal"]
Emits = Literal["atomic", "relayed"]

BUSY_TIMEOUT_MS: Final = 5_000
"""How long one BEGIN waits for another process."""

PAGE_BYTES: Final = 4_096
"""Size of a page of a store."""

CHECKPOINT_PAGES: Final = 2_000
"""The write-ahead log is copied into the database from this many pages on."""

MAX_LOG_PAGES: Final = 8_192
"""From this many pages (32 MiB) on the log is emptied even if the writer must wait for it.

A slow disk, or a reader that is in the way a few times, lets it grow to twice as much before it is.
"""

LOCK_WAIT_S: Final = 0.5
"""A caller that finds no owner owns the store while it decides; whoever starts just then outwaits it."""


@attrs.frozen(kw_only=True)
class Settings:
    """Settings of an opening; the first two are stored for life.

    Attributes:
        shard_count: Shards, and partitions of each conversation topic.
        lane_policy: What makes a lane.
        durability: "full" syncs each commit; "normal" may lose the last ones to a power cut, never to a kill.
        emits: "atomic", or "relayed" as a backend that cannot would do it.
        cache_bytes: Page cache of the writer.
        lock_wait_s: How long an opening waits for another owner to go.
        vfs: Name of a registered SQLite VFS; None is the usual one.
        allows_unsafe: Open it also where the file system is known to break it.
    """

    shard_count: int = 16
    lane_policy: str = "conversation"
    durability: Durability = "full"
    emits: Emits = "atomic"
    cache_bytes: int = 2 * 1024 * 1024
    lock_wait_s: float = 0.0
    vfs: str | None = None
    allows_unsafe: bool = False
