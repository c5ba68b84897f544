"""The suspects of a shard that crashed while the gate was closed: the new run of the shard brings them to it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .suspects import runs_first

if TYPE_CHECKING:
    from .services import Services
    from .shard import ShardActor


def enter_again(shard: ShardActor, services: Services) -> None:
    """Have the shard's suspects run first once more; those that have ended meanwhile keep the gate shut no longer.

    Args:
        shard: Its lanes are new, and its claims are back on disk.
        services: The runtime's parts.
    """
    gate, now_us = services.gate, services.clock.wall_us()
    for row_id in gate.awaited:
        stored = services.store.reader.inbox(row_id)
        if stored is None or stored.record.shard != shard.number:
            continue
        if runs_first(stored.record, now_us):
            gate.again(row_id)
            shard.inbox.lanes.open(stored.record.conversation_key)
        else:
            gate.leave(row_id)


__all__ = ["enter_again"]
