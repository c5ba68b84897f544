"""How a runtime comes to its end: no intake, no new claims, time for what is under way, then the cut.

    running -> draining     somebody asked, or the block ended: edges end, nothing is claimed any more
    draining -> cut         all is quiet, the grace time is over, or a second request came: what still runs is cancelled
    cut -> over             everything has ended, claims are back on disk, the store is closed

What ignores its cancellation (a thread, say) keeps a runtime from being over. Only the owner of the process can end
that: `wait_stuck` tells when it is time to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import attrs
import trio

from ..actors.errors import Code
from ..actors.supervisor import Supervisor
from .defaults import LINGER_S

if TYPE_CHECKING:
    from .services import Services

_EDGES_S: Final = 1.0
_HURRIED_LINGER_S: Final = 1.0
_RELEASE_S: Final = 2.0


@attrs.frozen
class Stuck:
    """What still ran when a stop should have been over; the rest is edges.

    Attributes:
        turns, sends: How many ignore their cancellation.
        store: Why the store took no message when it was last asked: what ended meanwhile may not be written.
    """

    turns: int
    sends: int
    store: Code | None


class Stop:
    """The bounded stop of one runtime.

    Args:
        services: The runtime's parts.
        root: The tree.
        grace_s: Seconds for turns and sends under way.

    Attributes:
        asked: Somebody wants the runtime to stop.
        is_over: The tree has ended.
        has_cancelled_work: Turns or sends were cut off.
    """

    def __init__(self, services: Services, root: Supervisor, *, grace_s: float) -> None:
        self.asked = trio.Event()
        self.is_over = False
        self.has_cancelled_work = False
        self._services = services
        self._root = root
        self._grace_s = grace_s
        self._due_s: float | None = None
        self._edges_told = False
        self._is_drained_out = False
        self._hurry = trio.Event()
        self._cut = trio.Event()

    def ask(self) -> None:
        """Ask for the stop; a second call ends the grace time."""
        if self.asked.is_set():
            self._hurry.set()
        self.asked.set()

    async def take_signals(self, received: AsyncIterator[int]) -> None:
        """Take each signal as `ask`, until cancelled: not shielded, for a `serve` that ends without one."""
        async for _ in received:
            self.ask()

    def cut(self) -> None:
        """The tree is being cancelled."""
        self._cut.set()

    async def drain(self) -> None:
        """No intake, no new claims; then give what is under way its time.

        Called again it goes on where it was cancelled, within the same grace time.
        """
        if self._is_drained_out:
            return
        self._due_s = self._due_s or trio.current_time() + self._grace_s
        with trio.CancelScope(deadline=self._due_s) as grace:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._cut_on_hurry, grace)
                if not self._edges_told:
                    self._edges_told = True
                    # One that ignores its cancellation holds nobody up: what it still reads is refused.
                    with trio.move_on_after(_EDGES_S):
                        await self._root.remove("edges")
                self._close_intake()
                await self._services.activity.wait_until(lambda: self.is_over or self._is_drained)
                nursery.cancel_scope.cancel()
        self._close_intake()
        self._services.ends.close()
        self._is_drained_out = True
        # Without any grace time the wake-ups just sent are still unread, and they are no work.
        self.has_cancelled_work = not self.is_over and (
            self._services.has_cut_off or any(shard.has_work for shard in self._services.shards)
        )

    async def wait_stuck(self) -> Stuck:
        """Wait until the cut was a while ago and something still runs; the messages of its turns go back on disk.

        Returns:
            What is stuck. Whoever runs the process ends it then: it would wait for ever.
        """
        await self._cut.wait()
        with trio.move_on_after(LINGER_S):
            await self._hurry.wait()
            await trio.sleep(_HURRIED_LINGER_S)
        services = self._services
        turns = [turn for topic in services.topics.values() for turn in topic.pool.running]
        for turn in turns:
            turn.ended(None, timed_out=False, cancelled=True)
        with trio.move_on_after(_RELEASE_S):
            await services.activity.wait_until(lambda: self._is_drained)
        sends = sum(len(channel.pool.running) for channel in services.deliveries.values())
        return Stuck(len(turns), sends, services.intake.store.code)

    @property
    def _is_drained(self) -> bool:
        return all(shard.is_drained for shard in self._services.shards)

    def _close_intake(self) -> None:
        services = self._services
        if not services.draining:
            services.draining = True
            services.tokens.close()
            services.intake.close()
            services.flush_all()

    async def _cut_on_hurry(self, grace: trio.CancelScope) -> None:
        await self._hurry.wait()
        grace.cancel()


__all__ = ["Stop", "Stuck"]
