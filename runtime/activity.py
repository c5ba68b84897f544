"""Who still has work: lets a caller wait until a runtime is quiet."""

from __future__ import annotations

from collections.abc import Callable

import trio


class Activity:
    """Wakes those who wait for a condition of the runtime, each time something may have changed it."""

    def __init__(self) -> None:
        self._lot = trio.lowlevel.ParkingLot()

    def changed(self) -> None:
        """Let the waiting look again."""
        if self._lot:
            self._lot.unpark_all()

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds; it is checked now and after every `changed`."""
        while not condition():
            await self._lot.park()
        await trio.lowlevel.checkpoint()
