"""Field entry 51: where a conversation lives never depends on the process."""

import os
import subprocess
import sys

import pytest

# What is stored or decides over a place, for keys of every channel and stores of several sizes.
TABLE = """
from shardline.actors.idempotency import turn_key
from shardline.actors.identifiers import session_id_for
from shardline.actors.keys import shard_of

keys = [f"tg:{n}" for n in range(-3, 1100) if n] + [
    "tg:4201:t7", "tg:4201:bBIZ", "slack:T1:C2:1700000000.000100", "discord:1497549923779084389", "maep:12D3KooWabc",
    "fake:\\u00e4\\u4e2d\\U0001f600", "demo:a b".replace(" ", "_"),
]
for key in keys:
    turn = turn_key(
        inbound_id=7, generation=1, verb="reply", name="0", conversation_key=key, store_uuid="a-store"
    )
    print(key.encode(), *(shard_of(key, shards) for shards in (1, 4, 8, 16, 1024)), turn.encode())
print(session_id_for("0194f5c0-8f6e-7d9d-a4d7-6d8d4f35f456", 1_767_225_600_000_000, "tg:1"))
"""


def routing_table(seed: str) -> list[str]:
    """The table as a process with this hash seed makes it."""
    done = subprocess.run(
        [sys.executable, "-c", TABLE],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout.splitlines()


# By hand, in stores of 1, 4, 8, 16 and 1,024 shards.
GOLDEN = {
    "tg:1001": [0, 0, 0, 0, 480],
    "tg:1009": [0, 0, 0, 8, 632],
    "tg:4201:t7": [0, 2, 6, 14, 734],
    "discord:1497549923779084389": [0, 1, 5, 13, 445],
}


@pytest.fixture(scope="module")
def first_table() -> list[str]:
    """The table of hash seed 0."""
    return routing_table("0")


@pytest.mark.parametrize("seed", ["1", "random"])
def test_the_routing_table_is_the_same_under_every_hash_seed(first_table: list[str], seed: str) -> None:
    assert len(first_table) > 1_100
    assert routing_table(seed) == first_table


def test_the_routing_table_is_what_it_always_was(first_table: list[str]) -> None:
    """FNV-1a, 32 bits: stores on disk rely on it."""
    homes = {line.split()[0]: [int(home) for home in line.split()[1:6]] for line in first_table[:-1]}

    assert {key: homes[str(key.encode())] for key in GOLDEN} == GOLDEN
