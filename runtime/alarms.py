"""The actor that calls back when a back-off is over. Durations run on the monotonic clock."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

import trio


class Alarms:
    """A heap of due times and one task that sleeps until the first."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._scope: trio.CancelScope | None = None

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_s(self) -> float:
        """When the first alarm is due, in `trio.current_time()`; infinity without one."""
        return self._heap[0][0] if self._heap else math.inf

    def after(self, wait_s: float, ring: Callable[[], None]) -> None:
        """Call `ring` on the trio thread after `wait_s` seconds, >= 0."""
        due_s = trio.current_time() + wait_s
        heapq.heappush(self._heap, (due_s, next(self._count), ring))
        if self._scope is not None and due_s < self._scope.deadline:
            self._scope.deadline = due_s

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Ring until cancelled."""
        task_status.started()
        while True:
            now_s = trio.current_time()
            while self._heap and self._heap[0][0] <= now_s:
                alarm = heapq.heappop(self._heap)
                try:
                    alarm[2]()
                except Exception:
                    # Rung again by the next run: somebody waits for it.
                    heapq.heappush(self._heap, alarm)
                    raise
            with trio.CancelScope(deadline=self.next_s) as self._scope:
                await trio.sleep_forever()
