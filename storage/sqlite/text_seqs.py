"""One place for a whole text: consecutive parts of it share a seq."""

from __future__ import annotations

from collections.abc import Callable

from ..records import OutboxRecord


class TextSeqs:
    """Draws the seqs of the sends of one part, in order.

    Args:
        draw: Draws the next seq of a shard.
    """

    __slots__ = ("_draw", "_last", "_seq")

    def __init__(self, draw: Callable[[int], int]) -> None:
        self._draw = draw
        self._last: tuple[str, str] | None = None
        self._seq = 0

    def of(self, record: OutboxRecord) -> int:
        """The seq of the next send."""
        text = (record.channel, record.idempotency_key)
        if text != self._last:
            self._last, self._seq = text, self._draw(record.shard)
        return self._seq
