"""A send that no turn decides: its rows of the outbox, stored at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.errors import BusError, Code
from ..actors.keys import prefix_of, shard_of
from ..actors.message import BusMessage
from ..storage.commands import Duplicate, Stored
from ..storage.records import OutboundContent, OutboxRecord
from .known_text import known_rows, rows_of_send
from .parts import publish_sends

if TYPE_CHECKING:
    from .services import Services


async def publish_send(
    channel: str, conversation_key: str, idempotency_key: str, content: OutboundContent, services: Services
) -> tuple[Stored | Duplicate, ...]:
    """Store a send and return after the commit: what became of the row of each part of its text.

    Raises:
        BusError: BUS_CLOSED; IDENTITY_MISMATCH, the key is used for another send; STORE_FULL, STORE_BUSY, STORE_IO.
    """
    _check_open(services)
    now_us = services.clock.wall_us()
    record = OutboxRecord(
        id=services.store.next_outbox_id(),
        shard=shard_of(conversation_key, services.store.info.shard_count),
        seq=0,
        channel=channel,
        idempotency_key=idempotency_key,
        part=0,
        conversation_key=conversation_key,
        created_at_us=now_us,
        updated_at_us=now_us,
    )
    try:
        return await publish_sends(rows_of_send(record, content, services), services)
    except BusError as error:
        if error.code is not Code.IDENTITY_MISMATCH or content.rich is not None:
            raise
        rows = known_rows(record, content, services)
        # Not cut at all, it says something else.
        if len(rows) <= 1:
            raise
    return await publish_sends(rows, services)


async def publish_outbound(message: BusMessage, services: Services) -> Stored | Duplicate:
    """Store the send that an outbound message asks for and return after the commit.

    Raises:
        BusError: UNKNOWN_CHANNEL, none is open for it; what `publish_send` raises.
    """
    _check_open(services)
    key = message.conversation_key
    channel = message.channel or services.prefixes.get(prefix_of(key))
    if channel is None or channel not in services.deliveries:
        raise BusError(Code.UNKNOWN_CHANNEL, "no open channel for this message", channel=channel, key=key)
    content = OutboundContent(
        text=message.payload.text,
        reply_to=message.payload.reply_to,
        correlation_id=message.correlation_id,
        hops=message.hops,
    )
    outcome, *_ = await publish_send(channel, key, message.idempotency_key, content, services)
    return outcome


def _check_open(services: Services) -> None:
    if services.draining:
        raise BusError(Code.BUS_CLOSED, "the runtime is stopping")


__all__ = ["publish_outbound", "publish_send"]
