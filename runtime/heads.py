"""What the head of a lane waits for, and whether the next one may start in the commit that ends the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..storage.records import InboxStatus
from .pool import WorkerPool
from .retry import rest_us
from .turn import QueuedRow, Turn

if TYPE_CHECKING:
    from .albums import Albums
    from .services import Services


def may_ride(row: QueuedRow, pool: WorkerPool[Turn], services: Services, albums: Albums | None) -> bool:
    """Say whether the turn of a waiting row may start the moment that another one ends.

    Args:
        row: The head of the lane.
        pool: The slot of the turn that ends is of this one.
        services: The runtime's parts.
        albums: None where no handler takes them whole.
    """
    if services.draining or pool.has_line or not services.gate.is_open:
        return False
    record = row.record
    topic = services.topics.get(record.topic)
    if topic is None or topic.pool is not pool:
        return False
    handler = services.topology.handler_of(record.topic, record.channel)
    if handler is None or record.status is InboxStatus.FAILED:
        return False
    if (breaker := topic.breakers.get(handler.channel)) and not breaker.is_closed:
        return False
    return albums is None or not albums.is_part(row)


def head_rest_us(row: QueuedRow, services: Services, albums: Albums | None) -> int:
    """How long the head of a lane waits still, microseconds: for its next try, or for the rest of its album."""
    record = row.record
    rest = 0
    if record.status is InboxStatus.FAILED:
        rest = rest_us(record.next_at_us, record.wait_us, services.clock.wall_us())
    return rest if albums is None else max(rest, albums.wait_us(row))


__all__ = ["head_rest_us", "may_ride"]
