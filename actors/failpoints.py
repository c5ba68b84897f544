"""Fail points: the borders of a commit, by name, where a test kills the process, raises or holds it.

A point is `<kind>.<border>`: the kind says what the commit holds (`KINDS`), the border where it is (`BORDERS`).
Nothing is armed in production, and an unarmed point costs one look at `armed`.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from enum import StrEnum
from typing import Final, Self

import attrs

from .errors import BusError, Code
from .system import kill_this_process

__all__ = ["BORDERS", "KINDS", "NO_FAILPOINTS", "FailAction", "FailPoint", "FailPointError", "FailPoints"]

KINDS: Final = (
    "accept",
    "step",
    "send-now",
    "done",
    "send-start",
    "send-result",
    "retry",
    "dead",
    "requeue",
    "emit",
    "relay",
    "control",
    "timer",
    "recovery",
)
BORDERS: Final = ("before_commit", "after_commit", "before_wake")
"""After the statements and before COMMIT; after COMMIT on the writer's side; before whoever waits is told."""


class FailAction(StrEnum):
    """What happens at a point."""

    KILL = "kill"
    """SIGKILL to the own process."""
    RAISE = "raise"
    """A `FailPointError` out of the code that hit it."""
    WAIT = "wait"
    """The thread that hit it is held until `release`."""


class FailPointError(Exception):
    """Raised by a point with the action `raise`."""


@attrs.frozen
class FailPoint:
    """One armed point; it acts once, at the N-th hit (1 is the first)."""

    kind: str
    border: str
    hit: int
    action: FailAction


class FailPoints:
    """The armed points of one runtime. `hit` may be called from any thread."""

    def __init__(self, points: Collection[FailPoint] = ()) -> None:
        self.armed: bool = bool(points)
        self._points = tuple(points)
        self._hits = [0] * len(self._points)
        self._lock = threading.Lock()
        self._reached = threading.Event()
        self._released = threading.Event()

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Read points such as `done.before_commit:3:kill`, separated by commas; hit and action may be left out.

        Raises:
            BusError: INVALID_MESSAGE, no such kind, border or action.
        """
        return cls([_parse_point(part.strip()) for part in spec.split(",")])

    def hit(self, border: str, kinds: Collection[str]) -> None:
        """Pass a border with a commit of these kinds.

        Raises:
            FailPointError: the point's action is `raise`.
        """
        for index, point in enumerate(self._points):
            if point.border != border or point.kind not in kinds:
                continue
            with self._lock:
                self._hits[index] += 1
                due = self._hits[index] == point.hit
            if due:
                self._act(point)

    def wait_reached(self, timeout_s: float) -> bool:
        """Block the calling thread until a `wait` point is reached; False if it was not in time."""
        return self._reached.wait(timeout_s)

    def release(self) -> None:
        """Let the held thread, and later ones, go on."""
        self._released.set()

    def _act(self, point: FailPoint) -> None:
        if point.action is FailAction.KILL:
            kill_this_process()
        if point.action is FailAction.RAISE:
            raise FailPointError(f"{point.kind}.{point.border}")
        self._reached.set()
        self._released.wait()


def _parse_point(text: str) -> FailPoint:
    name, _, rest = text.partition(":")
    hit, _, action = rest.partition(":")
    kind, _, border = name.partition(".")
    if kind not in KINDS or border not in BORDERS:
        raise BusError(Code.INVALID_MESSAGE, f"no fail point {name!r}", kinds=KINDS, borders=BORDERS)
    try:
        return FailPoint(kind, border, int(hit or 1), FailAction(action or FailAction.KILL))
    except ValueError as error:
        raise BusError(Code.INVALID_MESSAGE, f"fail point {text!r} must be <name>:<hit>:<action>") from error


NO_FAILPOINTS: Final = FailPoints()
