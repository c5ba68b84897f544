"""How a journal writes; and the way that writes inline, on the trio thread."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol

import trio

from .writing import BatchWriter, Delivery, Entry

MAX_BATCH_PARTS: Final = 1_024

CLOSE_LIMIT_S: Final = 10.0
"""How long a store that winds down, or stops, goes on offering what a full or busy disk does not take."""


class Drive(Protocol):
    """The loop between those who submit and the writer."""

    accepts: bool
    """False once it has begun to stop."""

    def put(self, entry: Entry, /) -> None:
        """Hand an entry over, on the trio thread, while it accepts."""
        ...

    def wind_down(self) -> None:
        """See `Store.wind_down`."""
        ...

    async def serve(self) -> None:
        """Write until cancelled, then finish what was handed over; never returns normally.

        Raises:
            Exception: it cannot go on. What is open then is the writer's `held`, and `rest`.
        """
        ...

    def rest(self) -> list[Entry]:
        """Take what was handed over but never reached the writer."""
        ...


class InlineDrive:
    """Writes on the trio thread; every task that can run joins the batch first."""

    def __init__(self, writer: BatchWriter, deliver: Callable[[Delivery], None]) -> None:
        self.accepts = True
        self._writer = writer
        self._deliver = deliver
        self._entries: list[Entry] = []
        self._in_hand: list[Entry] = []
        self._parked: trio.lowlevel.Task | None = None
        self._limit_s = math.inf

    def put(self, entry: Entry) -> None:
        """See `Drive`."""
        self._entries.append(entry)
        task, self._parked = self._parked, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def wind_down(self) -> None:
        """See `Drive`."""
        self._limit_s = min(self._limit_s, trio.current_time() + CLOSE_LIMIT_S)

    async def serve(self) -> None:
        """See `Drive`."""
        try:
            while True:
                await trio.lowlevel.checkpoint_if_cancelled()
                if self._writer.held:
                    await trio.sleep(self._writer.wait_s)
                elif not self._entries:
                    await self._park()
                await trio.lowlevel.cancel_shielded_checkpoint()
                self._step()
        except (trio.Cancelled, KeyboardInterrupt):
            self.accepts = False
            with trio.CancelScope(shield=True):
                await self._drain()
            raise
        finally:
            self.accepts = False

    def rest(self) -> list[Entry]:
        """See `Drive`."""
        entries, self._entries = self._entries, []
        return lost_in_hand(self._writer, self._in_hand) + entries

    def _step(self) -> None:
        entries = self._entries[:MAX_BATCH_PARTS]
        del self._entries[:MAX_BATCH_PARTS]
        self._in_hand = [*self._writer.held, *entries]
        delivery = self._writer.write(entries)
        self._in_hand = []
        self._deliver(delivery)
        if self._writer.held and trio.current_time() >= self._limit_s:
            self._deliver(self._writer.refuse())

    async def _drain(self) -> None:
        self.wind_down()
        while self._entries or self._writer.held:
            if self._writer.held:
                await trio.sleep(self._writer.wait_s)
            self._step()

    async def _park(self) -> None:
        self._parked = trio.lowlevel.current_task()

        def leave(_: object) -> trio.lowlevel.Abort:
            self._parked = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)


def lost_in_hand(writer: BatchWriter, in_hand: list[Entry]) -> list[Entry]:
    """What a writer had in hand when a bug ended it, unless it keeps it itself: nobody else can answer these."""
    return [] if writer.held else list(in_hand)
