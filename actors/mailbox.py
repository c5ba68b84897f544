"""The bounded queue in front of one actor.

States of a message: *waiting to enter* (its producer is parked in `put`; a cancelled producer takes it along),
*in* (counted by `len`), *taken* (the consumer's). Nothing here survives the process. A mailbox belongs to one trio
loop: another thread comes in through `TrioToken.run_sync_soon`.
"""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

import trio
from trio.lowlevel import Abort, Task, checkpoint, current_task, reschedule, wait_task_rescheduled

from .errors import BusError, Code

__all__ = ["EndOfMailbox", "Mailbox"]

T = TypeVar("T")

# A consumer that is never short of messages lets other tasks run this often.
FAIR_EVERY_MESSAGES = 32


class EndOfMailbox(Exception):
    """The mailbox is closed and its last message is taken; an end, not a failure."""


class _Waiting(Generic[T]):
    """A message whose producer waits for room."""

    __slots__ = ("is_in", "item")

    def __init__(self, item: T) -> None:
        self.item = item
        self.is_in = False


class Mailbox(Generic[T]):
    """A bounded first-in first-out queue of many producers and one consumer.

    A parked task is rescheduled directly, which costs a fraction of a memory channel's checkpoints: `put` with room
    and `get` with messages do not yield, except `get` once in 32 messages.

    Args:
        capacity: At most this many messages, >= 1.
        name: Whose mailbox it is; shown in refusals.
    """

    __slots__ = ("_capacity", "_consumer", "_is_closed", "_items", "_name", "_room", "_unyielded", "_waiting")

    def __init__(self, capacity: int, *, name: str = "") -> None:
        if capacity < 1:
            raise ValueError(f"a mailbox needs room for one message, not {capacity}")
        self._capacity = capacity
        # As the capacity; 0 once it is closed, so that one comparison answers both.
        self._room = capacity
        self._name = name
        self._items: deque[T] = deque()
        # Not empty only while the mailbox is full: room goes to the longest waiting, so nobody overtakes.
        self._waiting: OrderedDict[Task, _Waiting[T]] = OrderedDict()
        self._consumer: Task | None = None
        self._unyielded = 0
        self._is_closed = False

    def __len__(self) -> int:
        """Count the messages inside, without those whose producers wait for room."""
        return len(self._items)

    @property
    def capacity(self) -> int:
        """The most messages it holds."""
        return self._capacity

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called; messages may still wait inside."""
        return self._is_closed

    def put_nowait(self, item: T) -> None:
        """Add a message.

        Raises:
            BusError: BUS_CLOSED, the mailbox takes no more; QUEUE_FULL, there is no room now.
        """
        items = self._items
        if len(items) >= self._room:
            raise self._refusal()
        items.append(item)
        if self._consumer is not None:
            self._wake_consumer(self._consumer)

    async def put(self, item: T) -> None:
        """Add a message, after those that wait for room already; a cancelled call has added nothing.

        Raises:
            BusError: BUS_CLOSED, the mailbox takes no more, or was closed before there was room.
        """
        if self._is_closed or len(self._items) < self._capacity:
            self.put_nowait(item)
            return
        task = current_task()
        waiting = self._waiting[task] = _Waiting(item)

        def leave(_: object) -> Abort:
            del self._waiting[task]
            return Abort.SUCCEEDED

        await wait_task_rescheduled(leave)
        if not waiting.is_in:
            raise self._refusal()

    async def get(self) -> T:
        """Take the oldest message; wait for one if there is none. A cancelled call has taken nothing.

        Raises:
            EndOfMailbox: It is closed and empty.
            trio.BusyResourceError: Another task waits here already.
        """
        if not self._items or self._unyielded >= FAIR_EVERY_MESSAGES:
            await self._wait_message()
        self._unyielded += 1
        item = self._items.popleft()
        if self._waiting:
            self._admit()
        return item

    async def get_batch(self, limit: int) -> list[T]:
        """Take what waits, the oldest first; wait if there is nothing. A cancelled call has taken nothing.

        Args:
            limit: At most this many, >= 1.
        Returns:
            Shape (1 ... limit,).
        Raises:
            EndOfMailbox: It is closed and empty.
            trio.BusyResourceError: Another task waits here already.
        """
        if limit < 1:
            raise ValueError(f"a batch has at least one message, not {limit}")
        if not self._items or self._unyielded >= FAIR_EVERY_MESSAGES:
            await self._wait_message()
        items = self._items
        if len(items) <= limit:
            batch = list(items)
            items.clear()
        else:
            batch = [items.popleft() for _ in range(limit)]
        self._unyielded += len(batch)
        if self._waiting:
            self._admit()
        return batch

    def close(self) -> None:
        """Take no more messages; those inside can still be taken. Producers that wait for room get BUS_CLOSED."""
        self._is_closed = True
        self._room = 0
        for task in self._waiting:
            reschedule(task)
        self._waiting.clear()
        if self._consumer is not None:
            self._wake_consumer(self._consumer)

    async def _wait_message(self) -> None:
        if self._items:
            await checkpoint()
            self._unyielded = 0
        while not self._items:
            if self._is_closed:
                raise EndOfMailbox(self._name)
            if self._consumer is not None:
                raise trio.BusyResourceError(f"mailbox {self._name!r} has a consumer already")
            self._consumer = current_task()
            await wait_task_rescheduled(self._leave_consumer)
            self._unyielded = 0

    def _leave_consumer(self, _: object) -> Abort:
        self._consumer = None
        return Abort.SUCCEEDED

    def _wake_consumer(self, task: Task) -> None:
        self._consumer = None
        reschedule(task)

    def _admit(self) -> None:
        while self._waiting and len(self._items) < self._capacity:
            task, waiting = self._waiting.popitem(last=False)
            self._items.append(waiting.item)
            waiting.is_in = True
            reschedule(task)

    def _refusal(self) -> BusError:
        if self._is_closed:
            return BusError(Code.BUS_CLOSED, "the mailbox takes no more messages", mailbox=self._name)
        return BusError(Code.QUEUE_FULL, "the mailbox is full", mailbox=self._name, capacity=self._capacity)
