"""What contexts ask of their runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.errors import BusError, Code
from ..actors.keys import prefix_of
from .effects import TimerPlace
from .timer_rules import timer_place

if TYPE_CHECKING:
    import structlog.typing

    from .context import Context
    from .services import Services


class RuntimeSurroundings:
    """Answers from the topology and the open channels.

    Args:
        services: The runtime's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def store_uuid(self) -> str:
        """Which store this is: part of the keys that turns make."""
        return self._services.store.info.uuid

    def channel_of(self, conversation_key: str) -> str:
        """See `Surroundings.channel_of`."""
        prefix = prefix_of(conversation_key)
        channel = self._services.prefixes.get(prefix)
        if channel is None:
            raise BusError(
                Code.UNKNOWN_CHANNEL, f"no open channel has the prefix {prefix}", key=conversation_key
            )
        return channel

    def check_channel(self, channel: str, conversation_key: str) -> None:
        """See `Surroundings.check_channel`."""
        delivery = self._services.deliveries.get(channel)
        if delivery is None:
            raise BusError(Code.UNKNOWN_CHANNEL, f"channel {channel} is not open", channel=channel)
        prefix = delivery.adapter.prefix
        if not conversation_key.startswith(f"{prefix}:"):
            raise BusError(
                Code.INVALID_MESSAGE,
                f"conversation {conversation_key} is not one of channel {channel}: its keys begin with {prefix}:",
                channel=channel,
                key=conversation_key,
            )

    def is_event_topic(self, topic: str) -> bool:
        """See `Surroundings.is_event_topic`."""
        topology = self._services.topology
        if topic in topology.events:
            return True
        topology.check_conversation_topic(topic)
        return False

    def timer_place(self, topic: str, key: str | None, *, spread: str) -> TimerPlace:
        """See `Surroundings.timer_place`."""
        services = self._services
        return timer_place(
            services.topology, topic, key, spread=spread, shard_count=services.store.info.shard_count
        )

    def has_timer(self, timer_id: str) -> bool:
        """See `Surroundings.has_timer`."""
        return self._services.store.reader.timer(timer_id) is not None

    def logger(self, context: Context) -> structlog.typing.FilteringBoundLogger:
        """See `Surroundings.logger`."""
        message = context.message
        return self._services.log.bind(
            message_id=message.id,
            conversation_key=message.conversation_key,
            topic=message.topic,
            claim=context.claim,
        )
