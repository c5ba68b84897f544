"""Makes chat logs of the form that the transcript channel reads."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

WORDS = [
    "hello",
    "why",
    "does",
    "the",
    "old",
    "printer",
    "wake",
    "up",
    "naïve",
    "café",
    "😀",
    "stars",
    '"and"',
    "\\n",
]


def chat_records(conversations: int, messages: int, seed: int) -> Iterator[dict[str, int | str]]:
    """`messages` records, spread unevenly over the conversations, which stand one after another."""
    chance = random.Random(seed)
    counts = [1] * conversations
    for _ in range(messages - conversations):
        # Some conversations are much longer than others.
        counts[int(conversations * chance.random() ** 2)] += 1
    for conversation, count in enumerate(counts):
        minute = chance.randrange(600)
        for seq in range(count):
            minute += chance.randrange(3)
            yield {
                "conversation": conversation,
                "seq": seq,
                "sender": f"user{chance.randrange(1, 9)}",
                "at": f"{minute // 60 % 24:02}:{minute % 60:02}",
                "text": " ".join(chance.choices(WORDS, k=chance.randrange(1, 12))),
            }


def chat_lines(*, conversations: int, seed: int) -> Iterator[bytes]:
    """Lines of a log without end; each comes from any of the conversations."""
    chance = random.Random(seed)
    counts = [0] * conversations
    while True:
        conversation = chance.randrange(conversations)
        record = {
            "conversation": conversation,
            "seq": counts[conversation],
            "sender": f"user{chance.randrange(1, 9)}",
            "at": f"{chance.randrange(24):02}:{chance.randrange(60):02}",
            "text": " ".join(chance.choices(WORDS, k=chance.randrange(1, 12))),
        }
        counts[conversation] += 1
        yield json.dumps(record).encode() + b"\n"


def write_log(path: Path, *, conversations: int, messages: int, seed: int = 0) -> dict[str, int]:
    """Write a log, as gzip if the name ends in .gz.

    Returns:
        How many messages each conversation has, by its address.
    """
    counts: dict[str, int] = {}
    lines: list[str] = []
    for record in chat_records(conversations, messages, seed):
        address = str(record["conversation"])
        counts[address] = counts.get(address, 0) + 1
        lines.append(json.dumps(record) + "\n")
    data = "".join(lines).encode()
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return counts
