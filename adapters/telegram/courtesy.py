"""A call that belongs to the start and that the bot can do without for a while: made again until it is answered."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import trio

from .api import CallFailed
from .health import Reports
from .limits import COURTESY_S, poll_pause_s
from .wire import Answer, Ok

_ACTION = "The bot goes on; look at the network, the proxy and the API's base."


class Courtesy:
    """One such call.

    Args:
        ask: Makes it, once.
        what: It is for, for people.
        edge: Is told what goes wrong.
        chance: A number from 0 to 1, the jitter.
    """

    def __init__(
        self, ask: Callable[[], Awaitable[Answer]], what: str, edge: Reports, chance: Callable[[], float]
    ) -> None:
        self._ask = ask
        self._what = what
        self._edge = edge
        self._chance = chance
        self._failures = 0
        self._wait_s = 0.0

    async def once(self) -> Answer | None:
        """Call; None where there was no answer within some seconds, or one that asks to come again."""
        return await self._try(COURTESY_S)

    async def insist(self) -> Answer:
        """Call until there is an answer, ever more slowly; never sooner than the server asks for."""
        while True:
            if self._failures:
                await trio.sleep(self._wait_s)
            # Nobody waits for it any more, so it may take its time.
            answer = await self._try(math.inf)
            if answer is not None:
                return answer

    async def _try(self, limit_s: float) -> Answer | None:
        answer: Answer | None = None
        why = f"no answer within {limit_s:g} s"
        try:
            with trio.move_on_after(limit_s):
                answer = await self._ask()
        except CallFailed as error:
            why = str(error)
        told_s = 0.0
        if answer is not None:
            if isinstance(answer, Ok) or not (answer.code == 429 or answer.code >= 500):
                if self._failures:
                    self._edge.report("ok")
                return answer
            why, told_s = f"refused with {answer.code}", float(answer.retry_after_s or 0)
        self._failures += 1
        self._wait_s = max(told_s, poll_pause_s(self._failures, self._chance()))
        self._edge.report("degraded", f"{self._what}: {why}", action=_ACTION)
        return None


__all__ = ["Courtesy"]
