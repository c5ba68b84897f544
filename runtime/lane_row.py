"""What a lane needs to know of its rows, and of where they wait."""

from __future__ import annotations

from typing import Protocol, TypeVar


class LaneRow(Protocol):
    """What a lane needs to know of a row."""

    @property
    def seq(self) -> int:
        """Its place in the order of its lane."""
        ...

    @property
    def holds_token(self) -> bool:
        """Whether the row is paid for by a token; all others count into the window."""
        ...

    @property
    def is_urgent(self) -> bool:
        """Whether the row may use the reserve of its shard where the window is full."""
        ...


Row = TypeVar("Row", bound=LaneRow)


class Backlog(Protocol[Row]):
    """The two reads a shard's lanes need."""

    def page(self, after: str, room: int) -> list[tuple[str, list[Row] | None]]:
        """The next conversations after this key that have open rows, in the order of their keys.

        Args:
            after: The key.
            room: How many rows there is room for, > 0.
        Returns:
            Each with all its open rows, or with None where `rows` has to read them; empty behind the last one.
        """
        ...

    def rows(self, key: str, after_seq: int, limit: int) -> list[Row]:
        """Its open rows beyond a seq, in order."""
        ...
