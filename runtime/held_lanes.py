"""Lanes of one shard that wait for a circuit breaker: no message in memory, no token, nothing written.

Up to a number of them stay in memory. Those beyond it are forgotten and found again on disk, all together, when their
turn comes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from .defaults import HUNGRY_LANES
from .lane import Lane
from .lanes import Lanes
from .turn import QueuedRow

if TYPE_CHECKING:
    from .services import Services
    from .shard import ShardActor
    from .turn_breaker import TurnBreaker

_MOST_LATE: Final = 32


class HeldLanes:
    """Puts lanes aside until their breaker wakes them.

    Args:
        shard: Theirs.
        lanes: All lanes of this run of the shard.
        services: The runtime's parts.
        free_token: Gives a row's token back.
    """

    def __init__(
        self,
        shard: ShardActor,
        lanes: Lanes[QueuedRow],
        services: Services,
        free_token: Callable[[Lane[QueuedRow], QueuedRow], None],
    ) -> None:
        self._shard = shard
        self._lanes = lanes
        self._services = services
        self._free_token = free_token
        self._kept = 0
        self._late: list[Lane[QueuedRow]] = []
        self._forgotten: set[TurnBreaker] = set()

    def hold(self, lane: Lane[QueuedRow], head_seq: int, breaker: TurnBreaker) -> None:
        """Let a lane wait whose head has that seq; the head is in its queue, or on disk and released."""
        due_us = self._services.clock.wall_us() + round(breaker.wait_s * 1e6)
        for row in self._lanes.hold(lane, head_seq, due_us):
            self._free_token(lane, row)
        if self._kept < HUNGRY_LANES:
            self._kept += 1
            breaker.wait(partial(self._wake, lane))
            return
        if not self._lanes.let_go(lane):
            # Something is on its way to it.
            self._late.append(lane)
            if len(self._late) > _MOST_LATE:
                self._late = [late for late in self._late if not self._lanes.let_go(late)]
        if breaker not in self._forgotten:
            self._forgotten.add(breaker)
            breaker.wait(partial(self._find, breaker))

    def _find(self, breaker: TurnBreaker) -> bool:
        """Look for all that were forgotten; those that have to wait still come back here."""
        self._forgotten.discard(breaker)
        if self._shard.inbox.lanes is not self._lanes or self._services.draining:
            return False
        late, self._late = self._late, []
        for lane in late:
            self._lanes.unhold(lane)
        self._lanes.restart_scan()
        self._shard.flush_soon()
        return True

    def _wake(self, lane: Lane[QueuedRow]) -> bool:
        self._kept -= 1
        if self._shard.inbox.lanes is not self._lanes or self._services.draining:
            return False
        self._lanes.unhold(lane)
        self._shard.flush_soon()
        return True
