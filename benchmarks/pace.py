"""Gives a slower processor a slower disk, so that a ratio to raw SQLite says how good the code is.

With many messages in flight raw SQLite, one at a time, waits for the disk under FULL, and the product for the
processor: with syncs of one length everywhere the ratio would say how fast the processor is. So a sync is made to be
to this processor what 1 ms is to the one the bars come from. Raw SQLite without syncs is the measure of a processor;
a shared machine's own pace moves by half within minutes, so it is measured before each round.
"""

import ctypes
import tempfile
from pathlib import Path

from benchmarks.raw import raw_chat

REFERENCE_SYNC_US = 1_000
REFERENCE_PER_S = 6_602
"""Messages of raw SQLite on the machine of the bars, NORMAL, three transactions each."""
SECONDS = 0.3


def set_pace(folder: Path | None) -> int:
    """Measure the processor now, and set the length of a sync by it. The preloaded library is loaded.

    Args:
        folder: Where the file of raw SQLite lies; a temporary folder by default.
    Returns:
        The length, microseconds.
    """
    set_sync_us(0)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        rate = raw_chat(Path(place, "pace.db"), "NORMAL", SECONDS)
    sync_us = sync_us_for(rate.per_s)
    set_sync_us(sync_us)
    return sync_us


def set_sync_us(sync_us: int) -> None:
    """Set the length of a sync in this process, microseconds, >= 0."""
    ctypes.CDLL(None).shardline_set_sync_us(ctypes.c_long(sync_us))


def sync_us_for(raw_per_s: float) -> int:
    """The sync that is to a processor as the reference's is to its own, microseconds.

    Args:
        raw_per_s: Messages/s of raw SQLite there, NORMAL, syncs of no length; > 0.
    """
    return round(REFERENCE_SYNC_US * REFERENCE_PER_S / raw_per_s)
