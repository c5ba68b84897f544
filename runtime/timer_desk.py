"""What a person may look at and decide over timers, as an API on a live runtime."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from ..storage.records import StoredTimer
from .argument_checks import check_filters, check_page, check_words

if TYPE_CHECKING:
    from .control.hands import StoreHands
    from .services import Services


class TimerDesk:
    """Timers that are set.

    Args:
        services: The runtime's parts.
        hands: What takes them back.
    """

    def __init__(self, services: Services, hands: StoreHands) -> None:
        self._services = services
        self._hands = hands

    @property
    def next_due_us(self) -> int | None:
        """When the next one fires, microseconds since 1970 UTC; None where none is set."""
        return self._services.timers.next_due_us

    def list(
        self, *, key: str | None = None, topic: str | None = None, offset: int = 0, limit: int = 100
    ) -> builtins.list[StoredTimer]:
        """Timers, the next one first.

        Args:
            key: Only those of this conversation, or with this key of an event.
            topic: Only those of this topic.
            offset: How many to pass over.
            limit: At most this many.
        """
        check_page(offset, limit)
        check_filters(key=key, topic=topic)
        return self._services.store.reader.list_timers(key=key, topic=topic, offset=offset, limit=limit)

    async def cancel(self, timer_id: str) -> None:
        """Take a timer back.

        Raises:
            BusError: NOT_FOUND, none of this name is set; INVALID_TRANSITION, the topology declares it;
                INVALID_MESSAGE, no text.
        """
        check_words(timer_id, "timer_id")
        await self._hands.cancel_timer(timer_id, None)
