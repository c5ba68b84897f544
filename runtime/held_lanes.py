"""Lanes of one shard that wait for a circuit breaker: no message in memory, no token, nothing written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from .lane import Lane
from .lanes import Lanes
from .turn import QueuedRow

if TYPE_CHECKING:
    from .services import Services
    from .shard import ShardActor
    from .turn_breaker import TurnBreaker


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

    def hold(self, lane: Lane[QueuedRow], head_seq: int, breaker: TurnBreaker) -> None:
        """Let a lane wait whose head has that seq; the head is in its queue, or on disk and released."""
        due_us = self._services.clock.wall_us() + round(breaker.wait_s * 1e6)
        for row in self._lanes.hold(lane, head_seq, due_us):
            self._free_token(lane, row)
        breaker.wait(partial(self._wake, lane))

    def _wake(self, lane: Lane[QueuedRow]) -> bool:
        if self._shard.inbox.lanes is not self._lanes or self._services.draining:
            return False
        self._lanes.unhold(lane)
        self._shard.flush_soon()
        return True
