"""One message in memory, and one run of its handler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.message import BusMessage
from ..storage.records import InboxRecord
from .shard_messages import TurnEnded

if TYPE_CHECKING:
    from ..storage.port import StoredState
    from .context import Context
    from .lane import Lane
    from .shard import ShardActor
    from .topic_handler import TopicHandlerActor
    from .topology import HandlerSpec


class QueuedRow:
    """An inbox row in a lane: its record so far, its message, and whether a token pays for it.

    `handler` is who takes it, where that was looked up already: the topology does not change.
    """

    __slots__ = ("handler", "holds_token", "message", "record")

    is_urgent = False
    rest: tuple[QueuedRow, ...] = ()
    """What a turn takes along with it: the other parts of its album, in order."""

    def __init__(
        self,
        record: InboxRecord,
        message: BusMessage,
        *,
        holds_token: bool,
        handler: HandlerSpec | None = None,
    ) -> None:
        self.record = record
        self.handler = handler
        self.message = message
        self.holds_token = holds_token

    @property
    def seq(self) -> int:
        """The row's place in its shard."""
        return self.record.seq


class AlbumRow(QueuedRow):
    """The first part of an album on its way into a turn, with the others."""

    __slots__ = ("rest",)

    def __init__(self, first: QueuedRow, rest: list[QueuedRow]) -> None:
        super().__init__(first.record, first.message, holds_token=first.holds_token)
        self.rest = tuple(rest)


class Turn:
    """A claimed row on its way through a topic's workers."""

    __slots__ = (
        "breaker",
        "context",
        "due_s",
        "epoch",
        "handler",
        "has_ended",
        "holds_slot",
        "is_deferred",
        "lane",
        "row",
        "shard",
        "stored_state",
        "timeout_s",
        "topic",
    )

    def __init__(
        self,
        shard: ShardActor,
        lane: Lane[QueuedRow],
        row: QueuedRow,
        *,
        topic: TopicHandlerActor,
        handler: HandlerSpec,
        stored_state: StoredState | None,
    ) -> None:
        self.shard = shard
        self.epoch = shard.epoch
        self.lane = lane
        self.row = row
        self.topic = topic
        self.handler = handler
        self.timeout_s = handler.timeout_s
        self.due_s = 0.0
        self.stored_state = stored_state
        self.holds_slot = True
        self.has_ended = False
        self.is_deferred = False
        self.breaker = topic.breakers.get(handler.channel)
        self.context: Context | None = None

    def cut_off(self) -> None:
        """Its time is over, or its shard wants it back: what the handler still decides has no effect."""
        if self.context is not None:
            self.context.end()

    def ended(self, error: BaseException | None, *, timed_out: bool, cancelled: bool) -> None:
        """Tell the breaker and the shard how it ended; the shard decides what that means.

        Only the first call counts.
        """
        if self.has_ended:
            return
        self.has_ended = True
        if self.context is not None:
            self.context.end()
        if self.breaker is not None:
            self.breaker.ended(self, error, timed_out=timed_out, cancelled=cancelled)
        self.shard.tell(TurnEnded(self, error, timed_out, cancelled))

    def dropped(self) -> None:
        """No worker will begin it: the claim goes back."""
        if self.breaker is not None:
            self.breaker.ended(self, None, timed_out=False, cancelled=True)
        self.shard.tell(TurnEnded(self, None, timed_out=False, cancelled=True))
