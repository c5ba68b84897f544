"""A send that no turn decides: its rows of the outbox, stored at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.errors import BusError, Code
from ..actors.keys import shard_of
from ..storage.commands import Duplicate, Stored
from ..storage.records import OutboundContent, OutboxRecord
from .parts import part_rows, publish_sends

if TYPE_CHECKING:
    from .services import Services


async def publish_send(
    channel: str, conversation_key: str, idempotency_key: str, content: OutboundContent, services: Services
) -> tuple[Stored | Duplicate, ...]:
    """Store a send and return after the commit: what became of the row of each part of its text.

    Raises:
        BusError: BUS_CLOSED; IDENTITY_MISMATCH, the key is used for another send; STORE_FULL, STORE_BUSY, STORE_IO.
    """
    if services.draining:
        raise BusError(Code.BUS_CLOSED, "the runtime is stopping")
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
    return await publish_sends(part_rows(record, content, services), services)


__all__ = ["publish_send"]
