"""What a publisher gets back once its message is on disk."""

from __future__ import annotations

from ..actors.value import value


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
