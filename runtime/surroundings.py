"""What contexts ask of their runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.errors import BusError, Code
from ..actors.keys import prefix_of
from ..storage.commands import StepWrite
from .effects import TimerPlace
from .pending_timers import pending_timer
from .timer_rules import timer_place
from .turn_commit import commit_send, commit_step

if TYPE_CHECKING:
    import structlog.typing

    from ..actors.content import Action, SendRef
    from ..actors.message import BusMessage
    from ..storage.records import InboxRecord
    from .channel import ChannelCaps
    from .context import Context
    from .effects import SendEffect
    from .services import Services
    from .state import StateShape


class RuntimeSurroundings:
    """Answers from the topology and the open channels.

    Args:
        services: The runtime's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self.store_uuid = services.store.info.uuid
        """Which store this is: part of the keys that turns make."""
        self.state_shape: StateShape = services.topology.state
        """See `Surroundings.state_shape`."""

    def channel_of(self, conversation_key: str) -> str:
        """See `Surroundings.channel_of`."""
        prefix = prefix_of(conversation_key)
        channel = self._services.prefixes.get(prefix)
        if channel is None:
            raise BusError(
                Code.UNKNOWN_CHANNEL, f"no open channel has the prefix {prefix}", key=conversation_key
            )
        return channel

    def check_channel(self, channel: str, conversation_key: str) -> ChannelCaps:
        """See `Surroundings.check_channel`."""
        return check_channel(self._services, channel, conversation_key)

    def act(self, channel: str, conversation_key: str, action: Action) -> None:
        """See `Surroundings.act`."""
        services = self._services
        delivery = services.deliveries[channel]
        if delivery.ephemeral is None:
            raise BusError(Code.INVALID_MESSAGE, f"channel {channel} has no ephemeral calls", channel=channel)
        if services.draining or delivery.line.is_stopped:
            services.count("ephemeral_lost")
            return
        delivery.ephemeral.call(delivery.recipients.address_of(conversation_key), action)

    def is_event_topic(self, topic: str) -> bool:
        """See `Surroundings.is_event_topic`."""
        topology = self._services.topology
        if topic in topology.events:
            return True
        topology.check_conversation_topic(topic)
        return False

    def stored_step(self, record: InboxRecord, name: str) -> bytes | None:
        """See `EarlyCommits.stored_step`."""
        return self._services.store.reader.step(record.id, name)

    async def store_step(self, record: InboxRecord, name: str, value: bytes) -> None:
        """See `EarlyCommits.store_step`."""
        await commit_step(self._services, record, StepWrite(name, value))

    def has_send(self, ref: SendRef) -> bool:
        """See `EarlyCommits.has_send`."""
        reader = self._services.store.reader
        return reader.find_outbox(ref.channel, ref.idempotency_key, ref.part) is not None

    async def send_now(self, record: InboxRecord, message: BusMessage, effect: SendEffect) -> None:
        """See `EarlyCommits.send_now`."""
        await commit_send(self._services, record, message, effect)

    def timer_place(self, topic: str, key: str | None, *, spread: str) -> TimerPlace:
        """See `Surroundings.timer_place`."""
        services = self._services
        return timer_place(
            services.topology, topic, key, spread=spread, shard_count=services.store.info.shard_count
        )

    def has_timer(self, timer_id: str) -> bool:
        """See `Surroundings.has_timer`."""
        store = self._services.store
        return store.reader.timer(timer_id) is not None or pending_timer(store, timer_id) is not None

    def logger(self, context: Context) -> structlog.typing.FilteringBoundLogger:
        """See `Surroundings.logger`."""
        message = context.message
        return self._services.log.bind(
            message_id=message.id,
            conversation_key=message.conversation_key,
            topic=message.topic,
            claim=context.claim,
        )


def check_channel(services: Services, channel: str, conversation_key: str) -> ChannelCaps:
    """What a channel can do; one that is not open, or does not own the key's prefix, is refused.

    Raises:
        BusError: UNKNOWN_CHANNEL, INVALID_MESSAGE.
    """
    delivery = services.deliveries.get(channel)
    if delivery is None:
        raise BusError(Code.UNKNOWN_CHANNEL, f"channel {channel[:80]} is not open", channel=channel[:80])
    prefix = delivery.adapter.prefix
    if not conversation_key.startswith(f"{prefix}:"):
        raise BusError(
            Code.INVALID_MESSAGE,
            f"conversation {conversation_key[:80]} is not one of channel {channel}: its keys begin with {prefix}:",
            channel=channel,
            key=conversation_key[:80],
        )
    return delivery.adapter.caps
