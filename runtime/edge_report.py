"""What an adapter says of its own connection, until it says otherwise, works again, or has said nothing for long."""

from __future__ import annotations

from typing import Literal

import attrs

from ..actors.errors import BusError, Code
from ..actors.given import shown
from ..actors.message import clean_text
from .defaults import EDGE_REPORT_S

EdgeState = Literal["ok", "degraded", "failing"]

_NOT_OK = frozenset({"degraded", "failing"})
_SHOWN_CHARS = 200


@attrs.frozen
class EdgeReport:
    """A state that is not ok, with what it is and what to do, for people."""

    state: Literal["degraded", "failing"]
    text: str
    action: str


class EdgeReports:
    """The reports of one adapter; only the last one counts. Times are seconds of trio's clock.

    Attributes:
        last: What was said last, which may be over.
    """

    __slots__ = ("_until_s", "last")

    def __init__(self) -> None:
        self.last: EdgeReport | None = None
        self._until_s = 0.0

    def tell(self, state: EdgeState, text: str, action: str, now_s: float) -> bool:
        """Keep a report; whether it is another than the one before.

        Raises:
            BusError: INVALID_MESSAGE, there is no such state, or it has no text.
        """
        if not _is_text(action):
            raise BusError(Code.INVALID_MESSAGE, f"action must be text, not {shown(action)}", field="action")
        if state == "ok":
            return self.clear()
        if not _is_text(state) or state not in _NOT_OK or not _is_text(text) or not text.strip():
            raise BusError(
                Code.INVALID_MESSAGE,
                'a report is "ok", or "degraded" or "failing" with a text',
                state=shown(state),
            )
        report = EdgeReport(state, clean_text(text)[:_SHOWN_CHARS], clean_text(action)[:_SHOWN_CHARS])
        is_new = self.at(now_s) != report
        self.last, self._until_s = report, now_s + EDGE_REPORT_S
        return is_new

    def clear(self) -> bool:
        """Forget it; whether there was one."""
        report, self.last = self.last, None
        return report is not None

    def at(self, now_s: float) -> EdgeReport | None:
        """What is said now."""
        if now_s >= self._until_s:
            self.last = None
        return self.last


def _is_text(value: object) -> bool:
    # Adapters are not all checked for types.
    return isinstance(value, str)


__all__ = ["EdgeReport", "EdgeReports", "EdgeState"]
