"""The bounds on what may wait on disk: of one conversation, and of all.

A conversation that is full refuses, one message at a time; too many open messages, or a disk without room, stop every
edge until there is room again. What a handler decided, a timer fired or a person sent through again is bound by none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..actors.errors import BusError, Code
from ..actors.value import value
from .defaults import BACKLOG_RESUME
from .store_pause import StorePause

if TYPE_CHECKING:
    import structlog.typing

    from ..storage.port import Store
    from .activity import Activity
    from .lane import Lane
    from .lanes import Lanes
    from .shard import ShardActor
    from .turn import QueuedRow


@value(kw_only=True)
class IntakeStatus:
    """Where intake stands.

    Attributes:
        is_paused: The edges have stopped reading: until `backlog` is down to `resume_at`, or the store takes messages.
        backlog: Open messages of all conversations, those on their way to disk included.
        max_backlog: As many, and the edges stop.
        max_lane_backlog: As many waiting in one conversation, and its next one is refused.
        store_code: What the store refuses messages with: STORE_FULL, STORE_BUSY; None while it takes them.
        store_s: For how long.
    """

    is_paused: bool
    backlog: int
    resume_at: int
    max_backlog: int
    max_lane_backlog: int
    store_code: Code | None = None
    store_s: float = 0.0


class Intake:
    """Holds messages from outside up, or refuses them, while too many wait.

    Args:
        store: Knows how many messages are open.
        activity: Says when that may have changed.
        log: Of the runtime.
        max_lane_backlog: Messages that may wait in one conversation, >= 1.
        max_backlog: Open messages at which edges stop reading, >= 1.

    Attributes:
        handed: Messages handed to the journal and not settled.
        store: The pause while the store takes nothing.
    """

    __slots__ = (
        "_activity",
        "_is_closed",
        "_is_paused",
        "_log",
        "_max_backlog",
        "_max_lane_backlog",
        "_resume_at",
        "_store",
        "handed",
        "store",
    )

    def __init__(
        self,
        store: Store,
        activity: Activity,
        log: structlog.typing.FilteringBoundLogger,
        *,
        max_lane_backlog: int,
        max_backlog: int,
    ) -> None:
        self._store = store
        self._activity = activity
        self._log = log
        self._max_lane_backlog = max_lane_backlog
        self._max_backlog = max_backlog
        # At least one below: a pause that ends where it began would begin again with the next message.
        self._resume_at = min(int(max_backlog * BACKLOG_RESUME), max_backlog - 1)
        self._is_paused = False
        self._is_closed = False
        self.handed = 0
        self.store = StorePause(log)

    def check_full(self) -> bool:
        """Whether edges have to wait: from `max_backlog` on, until nine tenths of it are left."""
        backlog = self._store.open_messages + self.handed
        if self._is_paused:
            if backlog <= self._resume_at:
                self._is_paused = False
                self._log.info("intake.resumed", backlog=backlog, max_backlog=self._max_backlog)
        elif backlog >= self._max_backlog:
            self._is_paused = True
            self._log.warning(
                "intake.paused", backlog=backlog, max_backlog=self._max_backlog, resume_at=self._resume_at
            )
        return self._is_paused

    def status(self) -> IntakeStatus:
        """Where it stands now."""
        return IntakeStatus(
            is_paused=self.check_full() or self.store.code is not None,
            backlog=self._store.open_messages + self.handed,
            resume_at=self._resume_at,
            max_backlog=self._max_backlog,
            max_lane_backlog=self._max_lane_backlog,
            store_code=self.store.code,
            store_s=self.store.age_s,
        )

    async def wait_room(self, timeout_s: float | None) -> float | None:
        """Wait until edges may read again. A cancelled wait changes nothing.

        Args:
            timeout_s: How long to wait, seconds; None for as long as it takes, 0 or less not at all.
        Returns:
            What is left of that time.
        Raises:
            BusError: QUEUE_FULL, not in that time; BUS_CLOSED, closed meanwhile.
        """
        began_s = trio.current_time()
        with trio.move_on_after(max(0.0, timeout_s) if timeout_s is not None else float("inf")) as scope:
            # Woken together, the first ones may have filled it again.
            while self.check_full() and not self._is_closed:
                await self._activity.wait_until(lambda: self._is_closed or not self.check_full())
        if scope.cancelled_caught:
            raise BusError(
                Code.QUEUE_FULL,
                f"{self._max_backlog} messages wait in this store",
                max_backlog=self._max_backlog,
                timeout_s=timeout_s,
            )
        if self._is_closed:
            raise BusError(Code.BUS_CLOSED, "the runtime is closing")
        return None if timeout_s is None else timeout_s - (trio.current_time() - began_s)

    async def wait_room_in(self, shard: ShardActor, key: str) -> None:
        """Wait until one more message may wait in this conversation, or intake is closed."""
        await self._activity.wait_until(
            lambda: self._is_closed or self.has_room(shard.inbox.lanes, shard.number, key)
        )

    def has_room(self, lanes: Lanes[QueuedRow], shard: int, key: str) -> bool:
        """Whether one more message may wait in this conversation; as `count_waiting`, which it does first."""
        lane = self.count_waiting(lanes, shard, key)
        if lane is None:
            return True
        is_full = lane.waiting_rows >= self._max_lane_backlog
        if is_full and not lane.is_full:
            self._log.warning(
                "lane.filled", conversation_key=lane.key, max_lane_backlog=self._max_lane_backlog
            )
        lane.is_full = is_full
        return not is_full

    def count_waiting(self, lanes: Lanes[QueuedRow], shard: int, key: str) -> Lane[QueuedRow] | None:
        """Count what waits in this conversation; to be done before each offer, while none of it is under way.

        Args:
            lanes: Of the conversation's shard.
            shard: Its number.
            key: The conversation.
        Returns:
            Its lane; None, nothing waits there.
        """
        lane = lanes.find(key)
        if lane is None:
            if lanes.knows_all(key):
                return None
            lane = lanes.open(key)
        if lane.beyond is None:
            lane.beyond, lane.counted_seq = self._store.reader.count_inbox_lane(shard, key, lane.last_seq)
        return lane

    def lane_is_full(self, key: str) -> BusError:
        """The refusal of a message whose conversation is full."""
        return BusError(
            Code.QUEUE_FULL,
            f"{self._max_lane_backlog} messages wait in this conversation",
            conversation_key=key,
            limit=self._max_lane_backlog,
        )

    def close(self) -> None:
        """Refuse everybody who waits or comes from now on."""
        self._is_closed = True
        self.store.close()
        self._activity.changed()


__all__ = ["Intake", "IntakeStatus"]
