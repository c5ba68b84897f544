"""What the parts of the channel say of themselves, as the one line that a channel has: the worst of it.

Without this the poll's "ok" would hide that the menu is not set, and the menu's that nothing can be read.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from ...runtime.edge_report import EdgeState

_WORSE = ("degraded", "failing")


class Reports(Protocol):
    """Is told how something goes."""

    def report(self, state: EdgeState, text: str = "", *, action: str = "") -> None:
        """As of `Edge`."""
        ...


@attrs.define(eq=False)
class Part:
    """One part of the channel, which knows only of itself."""

    _health: Health
    told: tuple[EdgeState, str, str] = ("ok", "", "")

    def report(self, state: EdgeState, text: str = "", *, action: str = "") -> None:
        """See `Edge.report`."""
        self.told = state, text, action
        self._health.tell()


class Health:
    """Of one run of the channel.

    Args:
        edge: Is told the worst; of two that are as bad, that of the part made first.
    """

    def __init__(self, edge: Reports) -> None:
        self._edge = edge
        self._parts: list[Part] = []

    def part(self) -> Part:
        """One more."""
        part = Part(self)
        self._parts.append(part)
        return part

    def tell(self) -> None:
        """Tell the edge."""
        for state in reversed(_WORSE):
            for part in self._parts:
                if part.told[0] == state:
                    _, text, action = part.told
                    self._edge.report(part.told[0], text, action=action)
                    return
        self._edge.report("ok")


__all__ = ["Health", "Part", "Reports"]
