"""Which conversations' turns wait for other conversations: one that would wait for itself is told at once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from ..actors.errors import BusError, Code


class TurnWaits:
    """The waits of running turns, from conversation to conversation; a turn may have several at once."""

    def __init__(self) -> None:
        self._targets: dict[str, Counter[str]] = {}

    def __len__(self) -> int:
        return len(self._targets)

    @contextmanager
    def waiting(self, caller: str, target: str) -> Generator[None]:
        """Hold the wait of a turn of conversation `caller` for conversation `target` while the block runs.

        Raises:
            BusError: WOULD_DEADLOCK, `target` is the caller's own, or its turn waits for it, perhaps by way of others.
        """
        if self._leads(target, caller):
            raise BusError(
                Code.WOULD_DEADLOCK,
                f"the turn of {caller} would wait for {target}, which waits for it",
                caller=caller,
                target=target,
            )
        targets = self._targets.setdefault(caller, Counter())
        targets[target] += 1
        try:
            yield
        finally:
            targets[target] -= 1
            if not targets[target]:
                del targets[target]
            if not targets and self._targets.get(caller) is targets:
                del self._targets[caller]

    def _leads(self, begin: str, end: str) -> bool:
        """Whether `begin` is `end`, or waits for it."""
        seen: set[str] = set()
        ahead = [begin]
        while ahead:
            key = ahead.pop()
            if key == end:
                return True
            if key not in seen:
                seen.add(key)
                ahead.extend(self._targets.get(key, ()))
        return False


__all__ = ["TurnWaits"]
