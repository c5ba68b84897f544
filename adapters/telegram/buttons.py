"""The waiting sign of a button that was pressed: it ends when the press is on disk and the handler has not ended it.

Best effort: one call, no second try, nothing stored, and nothing waits for it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from ...actors.extensions import Kind
from ..base import Inbound
from .api import Api, CallFailed
from .limits import BUTTON_CALL_S, BUTTON_CALLS, BUTTONS
from .wire import Answer, Ok

ANSWER: Final = "answerCallbackQuery"


class Buttons:
    """One bot's presses that nobody has answered yet.

    Args:
        api: The server.
        wait_s: How long the handler may take to answer by itself, seconds; None leaves all of it to the handler.

    Attributes:
        answered: Waiting signs that were ended here.
        lost: Those that were not: too many at once, or the call failed.
    """

    def __init__(self, api: Api, wait_s: float | None) -> None:
        self._api = api
        self._wait_s = wait_s
        self._open: dict[str, trio.CancelScope] = {}
        self._nursery: trio.Nursery | None = None
        self._calls = trio.CapacityLimiter(BUTTON_CALLS)
        self.answered = 0
        self.lost = 0

    @property
    def waiting(self) -> int:
        """Presses that nobody has answered yet."""
        return len(self._open)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None
            self._open.clear()

    def expect(self, inbound: Inbound) -> str | None:
        """A message is about to be stored: its query, if it is a press. The handler may be quicker than `begin`."""
        query = inbound.extensions.event_id
        if self._wait_s is None or inbound.extensions.kind is not Kind.CALLBACK or query is None:
            return None
        if len(self._open) >= BUTTONS:
            self.lost += 1
            return None
        self._open[query] = trio.CancelScope()
        return query

    def begin(self, query: str) -> None:
        """The press is on disk."""
        scope = self._open.get(query)
        if scope is None or self._nursery is None:
            self._open.pop(query, None)
            return
        self._nursery.start_soon(self._answer, query, scope)

    def forget(self, query: object) -> None:
        """The press was not stored, or the handler answers it."""
        scope = self._open.pop(query, None) if isinstance(query, str) else None
        if scope is not None:
            scope.cancel()

    async def _answer(self, query: str, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep(self._wait_s or 0.0)
        if self._open.pop(query, None) is not scope:
            return
        answer: Answer | None = None
        with trio.move_on_after(BUTTON_CALL_S), suppress(CallFailed):
            async with self._calls:
                answer = await self._api.call(ANSWER, {"callback_query_id": query})
        if isinstance(answer, Ok):
            self.answered += 1
        else:
            self.lost += 1


__all__ = ["ANSWER", "Buttons"]
