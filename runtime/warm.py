"""Which conversations are kept in memory although they are idle. Pure."""

from __future__ import annotations

from collections import OrderedDict


class WarmKeys:
    """A bounded list of keys, the longest idle first, emptied by sweeps.

    Args:
        limit: Keys kept, >= 0.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # By key: how many sweeps there had been when it became idle. A time stamp would cost a clock call a message.
        self._since: OrderedDict[str, int] = OrderedDict()
        self._sweeps = 0

    def __len__(self) -> int:
        return len(self._since)

    def add(self, key: str) -> str | None:
        """A key has become idle, or was looked at again. Answers the one that has to go for it, if any."""
        self._since[key] = self._sweeps
        self._since.move_to_end(key)
        if len(self._since) <= self._limit:
            return None
        return self._since.popitem(last=False)[0]

    def discard(self, key: str) -> None:
        """A key is idle no longer, or not kept."""
        self._since.pop(key, None)

    def sweep(self) -> list[str]:
        """Take out the keys that have been idle since before the last sweep."""
        gone: list[str] = []
        for key, since in self._since.items():
            if since == self._sweeps:
                break
            gone.append(key)
        for key in gone:
            del self._since[key]
        self._sweeps += 1
        return gone
