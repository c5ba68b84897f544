"""Calls that are worth nothing later: typing signs, answers to buttons. Best effort, once, never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ..actors.content import Action
from .channel import Acts
from .defaults import EPHEMERAL_CALLS, EPHEMERAL_S

if TYPE_CHECKING:
    import structlog.typing


class EphemeralActor:
    """Carries out one channel's ephemeral calls side by side; what does not fit or takes too long is dropped.

    Args:
        adapter: The channel, which can.
        channel: Its name.
        count: Counts by name: `ephemeral_done`, `ephemeral_lost`.
        log: For calls that raised.
    """

    def __init__(
        self,
        adapter: Acts,
        *,
        channel: str,
        count: Callable[[str], None],
        log: structlog.typing.FilteringBoundLogger,
    ) -> None:
        self._adapter = adapter
        self._count = count
        self._log = log.bind(channel=channel)
        self._nursery: trio.Nursery | None = None
        self._under_way = 0

    def call(self, address: str, action: Action) -> None:
        """Begin a call. It never waits: with too many under way, or before the start, it is lost."""
        if self._nursery is None or self._under_way >= EPHEMERAL_CALLS:
            self._count("ephemeral_lost")
            return
        self._under_way += 1
        self._nursery.start_soon(self._act, address, action)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Take calls until cancelled; those under way are then cut off."""
        self._under_way = 0
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    async def _act(self, address: str, action: Action) -> None:
        outcome = "ephemeral_lost"
        try:
            with trio.move_on_after(EPHEMERAL_S) as scope:
                await self._adapter.act(address, action)
            if not scope.cancelled_caught:
                outcome = "ephemeral_done"
        except Exception as error:
            self._log.debug("ephemeral.failed", error_type=type(error).__name__)
        finally:
            self._under_way -= 1
            self._count(outcome)


__all__ = ["EphemeralActor"]
