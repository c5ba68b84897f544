"""The hash chain of a shard's history: what is hashed, and how a chain is checked."""

# ruff: noqa: RUF005 (two tuples joined cost half of a new one that both are unpacked into)

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from operator import itemgetter
from typing import Final

import msgpack

from ..port import HistoryRow
from .numbers import Numbers
from .plan import Plan, Transition

FIRST_HEAD: Final = bytes(32)
"""What the first row of a shard is chained to."""

_SHARD: Final[Callable[[Transition], int]] = itemgetter(0)

ANCHOR_ROWS: Final = 4096
"""Every so many rows of a shard its chain head is kept for ever."""

Links = tuple[int, int, str, int, str, str, str, int, int, str | None, int]
"""shard, hseq, kind, identity, from, to, event, claim, at, code, instance."""


class Linker:
    """Chains rows. Each writer has its own: a packer is not for two threads."""

    __slots__ = ("_pack",)

    def __init__(self) -> None:
        self._pack = msgpack.Packer().pack

    def link(self, before: bytes, columns: Links) -> bytes:
        """The hash of one row: SHA-256 of the hash before it and the msgpack array of the row's columns."""
        return sha256(before + self._pack(columns)).digest()

    def chain(self, transitions: Iterable[Transition], numbers: Numbers, plan: Plan) -> None:
        """Add a history row for every transition, in order.

        Args:
            numbers: `hseqs` and `heads` move on.
            plan: Gets the rows, the anchors and the shards.
        """
        hseqs, heads, pack, add = numbers.hseqs, numbers.heads, self._pack, plan.history.append
        for shard, said in transitions:
            hseqs[shard] = hseq = hseqs[shard] + 1
            # Tuples joined cost half of a new one that both are unpacked into.
            columns = (shard, hseq) + said
            # `link`, spelled out: four rows a message.
            heads[shard] = h = sha256(heads[shard] + pack(columns)).digest()
            add(columns + (h,))
            if not hseq % ANCHOR_ROWS:
                plan.anchors.append((shard, hseq, h, said[6]))
        plan.shards.update(map(_SHARD, transitions))


def find_break(rows: Iterable[HistoryRow], *, before: bytes = FIRST_HEAD, hseq: int = 0) -> HistoryRow | None:
    """Check a stretch of one shard's chain.

    Args:
        rows: In order, without holes.
        before: The hash of the row before the first one.
        hseq: That row's number.
    Returns:
        The first row that does not follow from the one before it, or None.
    """
    linker = Linker()
    for row in rows:
        hseq += 1
        if row.hseq != hseq or not follows(linker, before, row):
            return row
        before = row.h
    return None


def follows(linker: Linker, before: bytes, row: HistoryRow) -> bool:
    """Whether a row is the one that was chained behind this hash."""
    columns: Links = (
        row.shard, row.hseq, row.kind, row.identity, row.before, row.after, row.event, row.claim, row.at_us,
        row.code, row.instance,
    )  # fmt: skip
    return linker.link(before, columns) == row.h
