"""Long polling: a page is confirmed by asking for the next one, and that is asked for when all of it is on disk.

The cursor lives in memory alone. A new process begins with what the server has not seen confirmed, and the store knows
what it has already; so nothing depends on a last confirmation, and ids may begin anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import trio

from ...actors.errors import BusError, Code
from ...actors.message import MAX_RAW_BYTES
from ...actors.plain import Plain
from ..base import Inbound
from .api import Api, CallFailed, NoAnswer
from .health import Reports
from .intake import Intake
from .limits import CONFLICT_S, EMPTY_S, PAGE, POLL_MARGIN_S, conflict_pause_s, poll_pause_s
from .wire import Ok, Refusal

_FAILING_S: Final = 60.0
_CONFIGURED: Final = "webhook is active"
_UPDATE_ID = re.compile(rb'"update_id"\s*:\s*([0-9]{1,18})')
ANOTHER: Final = "another consumer or a webhook uses this token"
WEBHOOK: Final = "a web hook is set for this token, so polling gets nothing"


class Poller:
    """Reads one bot's updates.

    Args:
        api: The server.
        edge: For reports.
        intake: Where updates go.
        allowed: Kinds of updates to ask for; None keeps what the server remembers.
        poll_s: How long a poll stays open, seconds.
        chance: A number from 0 to 1, the jitter.
    """

    def __init__(
        self,
        api: Api,
        edge: Reports,
        intake: Intake,
        *,
        allowed: Sequence[str] | None,
        poll_s: int,
        chance: Callable[[], float],
    ) -> None:
        self._api = api
        self._edge = edge
        self._intake = intake
        self._allowed = None if allowed is None else list[Plain](allowed)
        self._poll_s = poll_s
        self._chance = chance
        self._offset: int | None = None
        self._limit = PAGE
        self._failures = 0
        self._conflict_since_s: float | None = None
        self._failing_since_s: float | None = None

    async def run(self) -> None:
        """Read until cancelled.

        Raises:
            BusError: BAD_TOKEN; what `accept` raises.
        """
        while True:
            asked_s = trio.current_time()
            try:
                answer = await self._ask()
            except NoAnswer as error:
                if not error.body.lstrip().startswith(b'{"ok":true') or not await self._isolate(error.body):
                    await self._failed(str(error))
            except CallFailed as error:
                await self._failed(str(error))
            else:
                if isinstance(answer, Ok):
                    await self._take(answer, trio.current_time() - asked_s)
                else:
                    await self._refused(answer)

    async def _ask(self) -> Ok | Refusal:
        fields: dict[str, Plain] = {"timeout": self._poll_s, "limit": self._limit}
        if self._offset is not None:
            fields["offset"] = self._offset
        if self._allowed is not None:
            fields["allowed_updates"] = self._allowed
        return await self._api.call("getUpdates", fields, read_s=self._poll_s + POLL_MARGIN_S)

    async def _take(self, answer: Ok, took_s: float) -> None:
        page = answer.result
        last = await self._intake.take_page(page) if isinstance(page, list) and page else None
        if last is None and page != []:
            # The same would come again at once, and without end.
            await self._failed("getUpdates told no id of an update")
            return
        self._limit = PAGE
        self._failures = 0
        if self._conflict_since_s is not None or self._failing_since_s is not None:
            self._conflict_since_s = self._failing_since_s = None
            self._edge.report("ok")
        if last is not None:
            self._offset = last + 1
        elif took_s < EMPTY_S:
            # A server that keeps no poll open.
            await trio.sleep(EMPTY_S)
        await trio.lowlevel.checkpoint()

    async def _isolate(self, body: bytes) -> bool:
        """A page that cannot be parsed is asked for update by update; the one at fault is stored as it came.

        Returns:
            Whether there is something to go on with.
        """
        if self._limit > 1:
            self._limit = 1
            await trio.lowlevel.checkpoint()
            return True
        found = _UPDATE_ID.search(body)
        if found is None:
            return False
        update_id = int(found[1])
        unknown = Inbound.unknown(
            platform_message_id=f"update:{update_id}:unreadable", raw=body[:MAX_RAW_BYTES]
        )
        await self._intake.take(unknown)
        self._offset, self._limit = update_id + 1, PAGE
        return True

    async def _refused(self, refusal: Refusal) -> None:
        match refusal.code:
            case 401 | 404:
                raise BusError(Code.BAD_TOKEN, "the server does not take the bot's token any more")
            case 409:
                await self._conflict(refusal)
            case 429:
                wait_s = 1.0 if refusal.retry_after_s is None else float(max(0, refusal.retry_after_s))
                await trio.sleep(wait_s + self._chance())
            case _:
                await self._failed(f"getUpdates is refused with {refusal.code}")

    async def _conflict(self, refusal: Refusal) -> None:
        now_s = trio.current_time()
        since_s = self._conflict_since_s = now_s if self._conflict_since_s is None else self._conflict_since_s
        if _CONFIGURED in refusal.description:
            self._edge.report(
                "failing", WEBHOOK, action="Run with the web hook, or delete it: `deleteWebhook`."
            )
        elif now_s - since_s >= CONFLICT_S:
            self._edge.report("degraded", ANOTHER, action="Stop the other one, or take a new token.")
        await trio.sleep(conflict_pause_s(self._chance()))

    async def _failed(self, why: str) -> None:
        now_s = trio.current_time()
        since_s = self._failing_since_s = now_s if self._failing_since_s is None else self._failing_since_s
        if now_s - since_s >= _FAILING_S:
            self._edge.report("failing", why, action="Look at the network, the proxy and the API's base.")
        self._failures += 1
        await trio.sleep(poll_pause_s(self._failures, self._chance()))


__all__ = ["ANOTHER", "WEBHOOK", "Poller"]
