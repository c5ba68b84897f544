"""How long a sync has to take here, so that it is to this processor what 1 ms is to the one the bars come from.

The rate under FULL with one message in flight is the disk's, with many it is the processor's: with syncs of a fixed
length a ratio to raw SQLite one at a time says how fast the processor is as much as how good the code is. Raw SQLite
without syncs is the measure of the processor: its rate there is known for the machine of the bars.
"""

import json
import os
import subprocess
import sys

REFERENCE_SYNC_US = 1_000
REFERENCE_PER_S = 6_602
"""Messages of raw SQLite on the machine of the bars, NORMAL, three transactions each."""
SECONDS = 0.5
ROUNDS = 5


def paced_sync_us() -> int:
    """Measure raw SQLite with syncs that cost nothing, in a process of its own.

    Returns:
        Length of a sync, microseconds.
    Raises:
        subprocess.CalledProcessError: the measuring program failed; its own words are on standard error.
    """
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "raw",
        "--sync",
        "NORMAL",
        "--fsync-us",
        "0",
        "--rows",
        "1",
    ]
    command += ["--seconds", str(SECONDS), "--rounds", str(ROUNDS)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ)
    rates = {line["bench"]: line["messages_per_s"] for line in map(json.loads, done.stdout.splitlines())}
    return sync_us_for(rates["raw_chat"])


def sync_us_for(raw_per_s: float) -> int:
    """The sync that is to a processor as the reference's is to its own, microseconds.

    Args:
        raw_per_s: Messages/s of raw SQLite there, NORMAL, syncs of no length; > 0.
    """
    return round(REFERENCE_SYNC_US * REFERENCE_PER_S / raw_per_s)
