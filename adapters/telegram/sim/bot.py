"""One bot as the server of the tests knows it: its queue of updates, and what it has sent."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import attrs
import trio

from ....actors.plain import Plain
from ..fields import Object, integer_in, object_in, text_in
from .script import Fault, Script, message_update

CONFLICT: Final = (
    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
)
WEBHOOK_ACTIVE: Final = (
    "Conflict: can't use getUpdates method while webhook is active;"
    " use deleteWebhook to delete the webhook first"
)
FIRST_ID: Final = 912_000_001


@attrs.frozen(kw_only=True)
class SimCall:
    """A call that was made of the bot.

    Attributes:
        number: From 1.
        method: Of the Bot API.
        fields: Its parameters; a file is told by its length.
        at_s: On the server's monotonic clock.
        message_id: Of the message it made; None for any other call.
        fault: How it went wrong, if it did.
    """

    number: int
    method: str
    fields: Mapping[str, Plain]
    at_s: float
    message_id: int | None = None
    fault: str | None = None

    @property
    def chat(self) -> int | None:
        """The chat it was about."""
        return integer_in(self.fields, "chat_id")

    @property
    def text(self) -> str | None:
        """Its text or caption."""
        return text_in(self.fields, "text") or text_in(self.fields, "caption")


@attrs.frozen
class SimRefusal:
    """An error answer."""

    code: int
    description: str
    parameters: Object | None = None


class SimBot:
    """A token's side of the server.

    Args:
        script: What is in its queue, and how its calls go wrong.
    """

    def __init__(self, script: Script) -> None:
        self.me = script.me
        self.calls: list[SimCall] = []
        self.webhook_url = ""
        self.polls = 0
        self.served_at_s: dict[int, float] = {}
        self._per_s = script.per_s
        self._coming: deque[Object] = deque()
        self._first_poll_s: float | None = None
        self._come = 0
        self._faults: list[Fault] = [attrs.evolve(fault) for fault in script.faults]
        self._keeps = script.keeps
        self._kept: list[Object] = []
        self._queue: deque[Object] = deque()
        self._next_id = FIRST_ID
        self._numbers: dict[int, int] = {}
        self._poll: trio.CancelScope | None = None
        self._news = trio.Event()
        self._called = trio.Event()
        if self._per_s:
            self._coming.extend(script.updates)
        else:
            for update in script.updates:
                self.push(update)

    @property
    def waiting(self) -> int:
        """Updates that are not confirmed, those that are still to come among them."""
        return len(self._queue) + len(self._coming)

    def push(self, update: Object) -> int:
        """Put an update behind the others; returns its id."""
        number = integer_in(update, "update_id")
        number = self._next_id if number is None else number
        self._next_id = number + 1
        for body in (object_in(update, name) for name in update):
            chat = None if body is None else integer_in(object_in(body, "chat") or {}, "id")
            used = None if body is None else integer_in(body, "message_id")
            if chat is not None and used is not None:
                self._numbers[chat] = max(used, self._numbers.get(chat, 0))
        whole = {
            "update_id": number,
            **{name: value for name, value in update.items() if name != "update_id"},
        }
        self._queue.append(whole)
        self._kept.append(whole)
        self._wake()
        return number

    def say(self, chat: int, text: str, *, sender: int | None = None) -> int:
        """Somebody writes into a chat; returns the update's id."""
        return self.push(message_update(chat, text, self._number(chat), sender=sender))

    def add_fault(self, fault: Fault) -> None:
        """One more way to go wrong, tried behind the others."""
        self._faults.append(fault)

    def forget_faults(self) -> None:
        """From now on all goes well."""
        self._faults.clear()

    def renew(self) -> None:
        """A new process of the bot: a server that keeps everything gives all of it again."""
        if self._keeps:
            self._queue = deque(self._kept)

    def fault_of(self, method: str, fields: Object) -> Fault | None:
        """How this call goes wrong."""
        chat, text = integer_in(fields, "chat_id"), text_in(fields, "text")
        return next((fault for fault in self._faults if fault.matches(method, chat, text)), None)

    def note(self, method: str, fields: Object, fault: Fault | None, message_id: int | None) -> SimCall:
        """Remember a call."""
        call = SimCall(
            number=len(self.calls) + 1,
            method=method,
            fields=fields,
            at_s=trio.current_time(),
            message_id=message_id,
            fault=None if fault is None else fault.kind,
        )
        self.calls.append(call)
        self._tell()
        return call

    async def wait_called(self) -> None:
        """Until the next call is made."""
        await self._called.wait()

    async def wait_sent(self, count: int) -> None:
        """Until so many messages were made."""
        while len(self.sent()) < count:
            await self._called.wait()

    async def wait_confirmed(self) -> None:
        """Until every update is confirmed."""
        while self.waiting:
            await self._called.wait()

    def sent(self, chat: int | None = None) -> list[SimCall]:
        """Calls that made a message, in order."""
        return [
            call for call in self.calls if call.message_id is not None and (chat is None or call.chat == chat)
        ]

    def deliver(self, method: str, fields: Object) -> tuple[Plain, int | None]:
        """Do a call; returns its result, and the id of the message it made."""
        if method == "getMe":
            return dict(self.me), None
        if method == "getWebhookInfo":
            return {"url": self.webhook_url, "pending_update_count": self.waiting}, None
        if method in {"setWebhook", "deleteWebhook"}:
            self.webhook_url = (text_in(fields, "url") or "") if method == "setWebhook" else ""
            return True, None
        chat = integer_in(fields, "chat_id")
        if not method.startswith("send") or method == "sendChatAction" or chat is None:
            return True, None
        number = self._number(chat)
        made: dict[str, Plain] = {
            "message_id": number,
            "chat": {"id": chat, "type": "private" if chat > 0 else "supergroup"},
            "date": 1_760_000_000 + number,
        }
        text = text_in(fields, "text")
        return (made if text is None else {**made, "text": text}), number

    async def poll(self, fields: Object) -> Sequence[Object] | SimRefusal:
        """getUpdates: ends the poll before it, confirms, waits."""
        self.polls += 1
        if self.webhook_url:
            await trio.lowlevel.checkpoint()
            return SimRefusal(409, WEBHOOK_ACTIVE)
        offset = integer_in(fields, "offset") or 0
        limit = integer_in(fields, "limit") or 100
        if offset > 0:
            self._confirm(offset)
        if self._poll is not None:
            self._poll.cancel()
        with trio.move_on_after(float(integer_in(fields, "timeout") or 0)) as own:
            self._poll = scope = trio.CancelScope()
            with scope:
                while not self._let_come():
                    with trio.move_on_at(self._next_s()):
                        await self._news.wait()
            if scope.cancelled_caught:
                return SimRefusal(409, CONFLICT)
        if own.cancelled_caught:
            return []
        await trio.lowlevel.checkpoint()
        page = list(islice(self._queue, limit))
        now_s = trio.current_time()
        for update in page:
            self.served_at_s.setdefault(integer_in(update, "update_id") or 0, now_s)
        return page

    async def next_update(self) -> Object:
        """The first that is not confirmed; waits for one."""
        while not self._let_come():
            with trio.move_on_at(self._next_s()):
                await self._news.wait()
        await trio.lowlevel.checkpoint()
        return self._queue[0]

    def take(self, update: Object) -> None:
        """A web hook has accepted it."""
        if self._queue and self._queue[0] is update:
            self._queue.popleft()
            self._tell()

    def _let_come(self) -> bool:
        """Those whose time has come; returns whether any wait."""
        while self._coming and trio.current_time() >= self._next_s():
            self.push(self._coming.popleft())
            self._come += 1
        return bool(self._queue)

    def _next_s(self) -> float:
        """When the next one comes."""
        if not self._coming:
            return math.inf
        if self._first_poll_s is None:
            self._first_poll_s = trio.current_time()
        return self._first_poll_s + self._come / self._per_s

    def _confirm(self, offset: int) -> None:
        # An offset that is none of the queue's names nothing: ids may have begun anew.
        for at, update in enumerate(self._queue):
            if (integer_in(update, "update_id") or 0) == offset - 1:
                for _ in range(at + 1):
                    self._queue.popleft()
                self._tell()
                return

    def _number(self, chat: int) -> int:
        self._numbers[chat] = number = self._numbers.get(chat, 0) + 1
        return number

    def _tell(self) -> None:
        self._called.set()
        self._called = trio.Event()

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()


__all__ = ["CONFLICT", "FIRST_ID", "WEBHOOK_ACTIVE", "SimBot", "SimCall", "SimRefusal"]
