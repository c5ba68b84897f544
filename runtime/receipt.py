"""What a publisher gets back once its message is on disk."""

from __future__ import annotations

from ..actors.value import value
from ..storage.commands import Duplicate, Stored


@value(kw_only=True)
class Receipt:
    """A message is on disk.

    Attributes:
        event_id: Id of its row: in the inbox, the log, or (for an outbound message) the outbox.
        topic: Its topic.
        partition, offset: Its place in the log; for an outbound message the shard and 0.
        duplicate: The key was known: the place is that of the first message.
        conflict: The key was known with another content.
    """

    event_id: int
    topic: str
    partition: int
    offset: int
    duplicate: bool = False
    conflict: bool = False


def receipt_of(topic: str, partition: int, outcome: Stored | Duplicate) -> Receipt:
    """Make the receipt of an accepted or repeated message; `partition` is that of a new one."""
    if isinstance(outcome, Stored):
        return Receipt(event_id=outcome.id, topic=topic, partition=partition, offset=outcome.offset)
    return Receipt(
        event_id=outcome.id,
        topic=topic,
        partition=outcome.partition,
        offset=outcome.offset,
        duplicate=True,
        conflict=outcome.conflict,
    )
