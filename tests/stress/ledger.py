"""What a channel really sent: one line a send, in files that only grow.

A line is written at one go and without a pause in which the send could be cancelled, so that a line is there if and
only if the send took place. No sync: what the processes of these tests die of is SIGKILL, which takes no written byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from shardline.actors.keys import fnv1a32
from shardline.adapters.base import Outbound

_FILES: Final = 16
"""Small files: a look-up reads one."""


@attrs.frozen
class Line:
    """One send that took place."""

    claim: int
    idempotency_key: str
    conversation_key: str
    text: str


class Ledger:
    """The files of one channel."""

    def __init__(self, folder: Path, channel: str) -> None:
        self._paths = [folder / f"{channel}-{number}.ledger" for number in range(_FILES)]
        self._files: list[int] = [
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            for path in self._paths
        ]

    def note(self, out: Outbound) -> None:
        """The send takes place now."""
        line = f"{out.claim}\t{out.idempotency_key}\t{out.conversation_key}\t{out.text}\n"
        os.write(self._files[_place(out.conversation_key)], line.encode())

    def has(self, out: Outbound) -> bool:
        """Whether it took place before."""
        found = self._paths[_place(out.conversation_key)].read_bytes()
        return f"\t{out.idempotency_key}\t".encode() in found

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()


def read_ledgers(folder: Path) -> Iterator[Line]:
    """All lines; those of one conversation in the order in which they were sent."""
    for path in sorted(folder.glob("*.ledger")):
        for line in path.read_text().splitlines():
            claim, key, conversation, text = line.split("\t")
            yield Line(int(claim), key, conversation, text)


def _place(conversation_key: str) -> int:
    return fnv1a32(conversation_key.encode()) % _FILES
