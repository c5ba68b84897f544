"""The walk over the conversations of a backlog, in key order: what of it is seen, and what may lie on disk unseen."""

from __future__ import annotations


class Scan:
    """Where a walk is.

    Attributes:
        cursor: The last key it has passed in this round.
        is_on: It has not come to its end.
        is_over: It has, and nothing was left behind since: every open row is in memory, or a lane knows of it.
    """

    __slots__ = ("_again", "_left_behind", "cursor", "is_on", "is_over")

    def __init__(self) -> None:
        self.cursor = ""
        self.is_on = True
        self.is_over = False
        self._again = False
        self._left_behind = False

    def has_passed(self, key: str) -> bool:
        """Whether no open row of the conversation can be on disk without a lane that knows of it."""
        return self.is_over or (
            not self._left_behind and not self._again and (not self.is_on or key <= self.cursor)
        )

    def leave_behind(self) -> None:
        """A conversation whose rows are on disk is forgotten: until `restart` nobody knows which."""
        self._left_behind = True
        self.is_over = False

    def restart(self) -> None:
        """Walk once more, from the start."""
        self._left_behind = False
        self._again = self.is_on
        self.is_on = True
        self.is_over = False

    def end_round(self) -> None:
        """Nothing lies behind the cursor."""
        self.is_on, self._again = self._again, False
        self.cursor = ""
        self.is_over = not self.is_on and not self._left_behind


def page_sizes(window_rows: int, page_rows: int, scan_rows: int) -> tuple[int, int]:
    """How much room a page of a lane, and a step of the scan, have to find in a window; at least 1.

    Of a scan's page that is read with little room most is thrown away, and read again with the next one.
    """
    page = max(1, min(page_rows, window_rows // 8))
    return page, max(page, min(scan_rows, window_rows // 4))


__all__ = ["Scan", "page_sizes"]
