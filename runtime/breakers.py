"""All breakers of a runtime: those of its handlers, and those of its channels' sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .services import Services
    from .turn_breaker import BreakerStatus


def breaker_statuses(services: Services) -> tuple[BreakerStatus, ...]:
    """Where each stands: the handlers' first, then the channels'."""
    of_turns = (one.status for topic in services.topics.values() for one in topic.breakers.values())
    of_sends = (
        delivery.breaker.status for delivery in services.deliveries.values() if delivery.breaker is not None
    )
    return (*of_turns, *of_sends)


__all__ = ["breaker_statuses"]
