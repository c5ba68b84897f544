"""The owner's side of control records: looks for those that wait, and carries them out one after the other."""

from __future__ import annotations

import trio

from ..defaults import CONTROL_POLL_S
from .execute import Log, Tries, execute
from .hands import StoreHands

_PAGE_RECORDS = 64


class ControlActor:
    """Carries out what other processes have left in the store.

    It looks by an index that holds the waiting records alone, which costs some ten microseconds; nobody has to wake it.

    Args:
        hands: What decisions go through.
        log: For what was carried out.
    """

    def __init__(self, hands: StoreHands, log: Log) -> None:
        self._hands = hands
        self._log = log
        self._tries = Tries()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Work until cancelled."""
        task_status.started()
        while True:
            await self.work_off()
            await trio.sleep(CONTROL_POLL_S)

    async def work_off(self) -> None:
        """Carry out what waits now, in the order it was left; stop at one that the store cannot take yet."""
        while waiting := self._hands.reader.waiting_controls(_PAGE_RECORDS):
            for control in waiting:
                if not await execute(control, self._hands, self._log, self._tries):
                    return
