"""An actor: one task that owns its state and handles one message after the other.

A run is `on_start`, messages, `on_stop`. A supervisor may run the same actor again: state that must not outlive a
crash is made in `on_start`; the mailbox, with all that waits there, is kept. The message in hand when a run ends is
not handled again: what must not be lost is on disk before it becomes a message.
"""

from collections import deque
from typing import Generic, TypeVar

import trio

from .mailbox import EndOfMailbox, Mailbox
from .ref import ActorRef, OpenAsks

__all__ = ["Actor"]

M = TypeVar("M")

# Messages taken at a time; also how far the messages held can exceed the mailbox's capacity.
BATCH_MESSAGES = 32


class Actor(Generic[M]):
    """Base of all actors; a subclass handles messages of type M.

    Args:
        name: Unique in the tree; for logs and refusals.
        capacity: The mailbox holds at most this many messages, >= 1.
    """

    def __init__(self, name: str, *, capacity: int = 1024) -> None:
        self._name = name
        self._mailbox: Mailbox[M] = Mailbox(capacity, name=name)
        self._asks = OpenAsks(name)
        self._ref = ActorRef(name, self._mailbox, self._asks)
        # Outlives a run, so that a crash takes only the message in hand.
        self._taken: deque[M] = deque()

    @property
    def name(self) -> str:
        """Unique in the tree."""
        return self._name

    @property
    def mailbox(self) -> Mailbox[M]:
        """Where messages wait. Closing it is the orderly end: what waits is handled, then the run returns."""
        return self._mailbox

    @property
    def ref(self) -> ActorRef[M]:
        """What others get to hold."""
        return self._ref

    async def on_start(self) -> None:
        """Make the state of this run; messages come after it. An exception here is a crash."""

    async def handle(self, message: M) -> None:
        """Handle one message. An exception here ends the run; it is for the supervisor, not for the sender."""
        raise NotImplementedError

    async def handle_batch(self, messages: deque[M]) -> None:
        """Handle the messages taken at once; override it to do something once a batch.

        Args:
            messages: Each is taken out before it is handled, so that a crash takes only the one in hand along.
        """
        while messages:
            await self.handle(messages.popleft())

    async def on_stop(self) -> None:
        """Give back what `on_start` took, whatever ended the run.

        When the run was cancelled, waiting here is cancelled too, unless it is shielded and bounded.
        """

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until the mailbox is closed and empty, `handle` raises, or the run is cancelled.

        Questions without an answer then get BUS_CLOSED.

        Args:
            task_status: Told when `on_start` is done.
        Raises:
            Exception: What `on_start`, `handle` or `on_stop` raised.
        """
        cause: BaseException | None = None
        self._asks.go_up()
        try:
            await self.on_start()
            task_status.started()
            try:
                await self._handle_all()
            finally:
                await self.on_stop()
        except Exception as error:
            cause = error
            raise
        finally:
            self._asks.go_down(cause)

    async def _handle_all(self) -> None:
        taken = self._taken
        while True:
            await self.handle_batch(taken)
            try:
                taken.extend(await self._mailbox.get_batch(BATCH_MESSAGES))
            except EndOfMailbox:
                return
