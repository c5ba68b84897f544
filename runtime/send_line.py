"""Who may send next on one channel: slots, rate limits, pauses, and two lines before them.

A conversation asks for its head (`try_take`); where that may not go now it stands in line (`wait`) and is called when
it may. Interactive sends pass bulk ones, yet not for ever; inside a conversation nothing passes. Everything is
synchronous and runs on the trio thread; time is trio's. A chat costs memory only while its bucket is not full or it is
paused.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from .alarms import Alarms
from .defaults import BULK_AFTER
from .pool import Job, WorkerPool
from .rates import Chat, Rate, RateLimits, after_return, after_take, wait_s
from .start_share import StartShare, bulk_quantum_s, bulk_rate

J = TypeVar("J", bound=Job)

_SWEEP_S = 30.0


class _Entry:
    """A conversation in line."""

    __slots__ = ("again", "chat", "granted", "is_bulk")

    def __init__(
        self, chat: Chat, granted: Callable[[], bool], again: Callable[[], None], *, is_bulk: bool
    ) -> None:
        self.chat = chat
        self.granted = granted
        self.again = again
        self.is_bulk = is_bulk


class SendLine(Generic[J]):
    """The line before one channel's workers.

    Args:
        pool: The workers.
        limits: Of the channel.
        chat_of: The chat that a conversation belongs to.
        alarms: Rings when a wait is over.
    """

    def __init__(
        self, pool: WorkerPool[J], limits: RateLimits, chat_of: Callable[[str], Chat], alarms: Alarms
    ) -> None:
        self._pool = pool
        self._limits = limits
        self._chat_of = chat_of
        self._alarms = alarms
        self._is_limited = limits.chat is not None or limits.group is not None or limits.bot is not None
        self._bulk_bot = bulk_rate(limits.bot)
        self._bulk_quantum_s = bulk_quantum_s(self._bulk_bot)
        self.share = StartShare(pool.slots, self._place_came)
        """What bulk sends may start at once."""
        self._bot_full_s = -math.inf
        self._bot_paused_s = -math.inf
        self._held_s = -math.inf
        self._starts_left = math.inf
        self._passed = 0
        self._full_s: dict[str, float] = {}
        self._paused_s: dict[str, float] = {}
        self._lines: tuple[deque[_Entry], deque[_Entry]] = (deque(), deque())
        self._resting: list[tuple[float, int, _Entry]] = []
        self._count = itertools.count()
        self._alarm_s = math.inf
        self._sweep_told = False
        self._asked_slot = False
        self._slots_held = 0
        self._is_serving = False
        self._must_serve = False
        self.is_stopped = False
        """The channel takes nothing any more, whoever asks: its rows stay where they are."""

    # --- asking ----------------------------------------------------------------------------------------------

    def try_take(self, key: str, *, is_bulk: bool) -> bool:
        """Take a slot and permits for the head of a conversation, unless something stands before it."""
        if not (
            is_bulk
            or self._is_limited
            or self._paused_s
            or self._lines[0]
            or self._lines[1]
            or self._resting
            or self._bot_paused_s != -math.inf
            or self._starts_left != math.inf
        ):
            # Nothing but slots can hold it up, as in nearly all channels nearly always.
            self.share.answered_s = trio.current_time()
            return not self.is_stopped and self._pool.try_reserve()
        if not self._may_pass(is_bulk=is_bulk):
            return False
        chat, now_s = self._chat_of(key), trio.current_time()
        if self._must_wait(chat, now_s, is_bulk=is_bulk) or not self._pool.try_reserve():
            return False
        self._take_permits(chat, now_s, is_bulk=is_bulk)
        return True

    def try_ride(self, key: str, *, is_bulk: bool) -> bool:
        """Take permits for the next send of a conversation whose slot is at hand, unless somebody else waits."""
        if self._pool.has_line or not self._may_pass(is_bulk=is_bulk):
            return False
        if self.is_free and not is_bulk:
            self.share.answered_s = trio.current_time()
            return True
        chat, now_s = self._chat_of(key), trio.current_time()
        if self._must_wait(chat, now_s, is_bulk=is_bulk):
            return False
        self._take_permits(chat, now_s, is_bulk=is_bulk)
        return True

    def wait(
        self, key: str, granted: Callable[[], bool], again: Callable[[], None], *, is_bulk: bool
    ) -> None:
        """Stand in line.

        Args:
            key: The conversation.
            granted: Called with a slot and permits taken; it answers False to pass them on.
            again: Called instead where the wait became long or endless: the conversation leaves the line and looks
                anew what holds it.
            is_bulk: Whether interactive sends may pass.
        """
        self._lines[is_bulk].append(_Entry(self._chat_of(key), granted, again, is_bulk=is_bulk))
        self._serve()

    def give_back(self, key: str) -> None:
        """What was taken was not used: the next in line gets it."""
        if self._is_limited:
            self._return_permits(self._chat_of(key))
        else:
            self._return_start()
        self._pool.give_back()
        if self._has_line:
            self._serve()

    # --- pauses ----------------------------------------------------------------------------------------------

    def pause_left_s(self, key: str) -> float:
        """How long the conversation's chat, or the whole bot, is paused, seconds; 0 if it is not."""
        until_s = max(self._bot_paused_s, self._held_s)
        if self._paused_s:
            until_s = max(until_s, self._paused_s.get(self._chat_of(key).id, -math.inf))
        return 0.0 if until_s == -math.inf else max(0.0, until_s - trio.current_time())

    def chat_id(self, key: str) -> str:
        """What the channel calls the conversation's chat."""
        return self._chat_of(key).id

    def pause(self, chat_id: str | None, wait_s: float) -> float:
        """Start nothing for one chat (None: for all) for so long; a longer pause that is on stays; how long it is."""
        until_s = trio.current_time() + wait_s
        if chat_id is None:
            self._bot_paused_s = until_s = max(self._bot_paused_s, until_s)
        else:
            self._paused_s[chat_id] = until_s = max(self._paused_s.get(chat_id, until_s), until_s)
        self._sweep_later()
        self._look_again(lambda entry: chat_id is None or entry.chat.id == chat_id)
        return until_s - trio.current_time()

    def hold(self, wait_s: float) -> None:
        """Start nothing for so long, then one send alone, until `let_go` or `let_one`."""
        self._held_s = trio.current_time() + wait_s
        self._starts_left = 1
        self._look_again(lambda _: True)

    def let_one(self) -> None:
        """Start one send more, once the time of `hold` is over."""
        self._starts_left = 1
        self._serve()

    def let_go(self) -> None:
        """Start everything again."""
        self._held_s = -math.inf
        self._starts_left = math.inf
        self._serve()

    def stop(self) -> None:
        """Start nothing any more."""
        self.is_stopped = True
        self._look_again(lambda _: True)

    @property
    def is_free(self) -> bool:
        """Nothing but slots can hold a send up."""
        is_paused = bool(self._paused_s) or self._bot_paused_s != -math.inf
        return not self._is_limited and not is_paused and self._starts_left == math.inf

    @property
    def waiting(self) -> int:
        """Conversations in line."""
        return len(self._lines[0]) + len(self._lines[1]) + len(self._resting)

    @property
    def paused_chats(self) -> int:
        """Chats that are paused."""
        now_s = trio.current_time()
        return sum(until_s > now_s for until_s in self._paused_s.values())

    @property
    def bot_pause_left_s(self) -> float:
        """How long the whole bot is paused, seconds."""
        return max(0.0, self._bot_paused_s - trio.current_time()) if self._bot_paused_s > -math.inf else 0.0

    @property
    def known_chats(self) -> int:
        """Chats that cost memory."""
        return len(self._full_s.keys() | self._paused_s.keys())

    # --- inside ----------------------------------------------------------------------------------------------

    @property
    def _has_line(self) -> bool:
        return bool(self._lines[0] or self._lines[1] or self._resting)

    def _rate_of(self, chat: Chat) -> Rate | None:
        return self._limits.group if chat.is_group else self._limits.chat

    def _may_pass(self, *, is_bulk: bool) -> bool:
        """Whether nothing stands before a send that asks out of line."""
        if self.is_stopped or self._lines[0] or self._starts_left < 1:
            return False
        if not is_bulk:
            return not self._owes_bulk
        return not self._lines[1] and self.share.has_room

    @property
    def _owes_bulk(self) -> bool:
        """Whether so many answers have passed a broadcast that one of its sends goes first."""
        return self._passed >= BULK_AFTER and bool(self._lines[1]) and self.share.has_room

    def _must_wait(self, chat: Chat, now_s: float, *, is_bulk: bool) -> bool:
        return self._bot_wait_s(now_s, is_bulk=is_bulk) > 0 or self._chat_wait_s(chat, now_s) > 0

    def _bot_wait_s(self, now_s: float, *, is_bulk: bool) -> float:
        rate = self._bulk_bot if is_bulk else self._limits.bot
        wait = 0.0 if rate is None else wait_s(rate, self._bot_full_s, now_s)
        return max(wait, self._bot_paused_s - now_s, self._held_s - now_s)

    def _chat_wait_s(self, chat: Chat, now_s: float) -> float:
        rate = self._rate_of(chat)
        wait = 0.0 if rate is None else wait_s(rate, self._full_s.get(chat.id, -math.inf), now_s)
        return max(wait, self._paused_s.get(chat.id, -math.inf) - now_s)

    def _take_permits(self, chat: Chat, now_s: float, *, is_bulk: bool) -> None:
        self._starts_left -= 1
        if is_bulk:
            self.share.take()
            self._passed = 0
        else:
            self.share.answered_s = trio.current_time()
            self._passed += bool(self._lines[1])
        if self._limits.bot is not None:
            self._bot_full_s = after_take(self._limits.bot, self._bot_full_s, now_s)
        rate = self._rate_of(chat)
        if rate is not None:
            self._full_s[chat.id] = after_take(rate, self._full_s.get(chat.id, -math.inf), now_s)
            self._sweep_later()

    def _return_start(self) -> None:
        self._starts_left = max(self._starts_left, 1)

    def _return_permits(self, chat: Chat) -> None:
        self._return_start()
        if self._limits.bot is not None:
            self._bot_full_s = after_return(self._limits.bot, self._bot_full_s)
        rate = self._rate_of(chat)
        if rate is not None and chat.id in self._full_s:
            self._full_s[chat.id] = after_return(rate, self._full_s[chat.id])

    def _serve(self) -> None:
        """Call those who may go, the first in line first."""
        if self._is_serving:
            self._must_serve = True
            return
        self._is_serving = self._must_serve = True
        try:
            while self._must_serve:
                self._must_serve = False
                self._serve_once()
        finally:
            self._is_serving = False

    def _serve_once(self) -> None:
        now_s = trio.current_time()
        while self._resting and self._resting[0][0] <= now_s:
            entry = heapq.heappop(self._resting)[2]
            self._lines[entry.is_bulk].append(entry)
        while True:
            owes = self._owes_bulk
            line = self._lines[1] if owes else self._lines[0] or self._lines[1]
            if not line:
                break
            chat, is_bulk = line[0].chat, line[0].is_bulk
            bot_wait = self._bot_wait_s(now_s, is_bulk=is_bulk and not owes)
            if bot_wait > 0 or self._starts_left < 1 or (is_bulk and not self.share.has_room):
                break
            chat_wait = self._chat_wait_s(chat, now_s)
            if chat_wait > 0:
                heapq.heappush(self._resting, (now_s + chat_wait, next(self._count), line.popleft()))
                continue
            if not self._has_slot():
                break
            self._slots_held -= 1
            self._take_permits(chat, now_s, is_bulk=is_bulk)
            if not line.popleft().granted():
                self._return_permits(chat)
                self._slots_held += 1
                if is_bulk:
                    self.share.give_back()
        while self._slots_held:
            self._slots_held -= 1
            self._pool.give_back()
        self._ring_later(now_s)

    def _has_slot(self) -> bool:
        if self._slots_held:
            return True
        if self._pool.try_reserve():
            self._slots_held += 1
            return True
        if not self._asked_slot:
            self._asked_slot = True
            self._pool.reserve_later(self._slot_came)
        return bool(self._slots_held)

    def _slot_came(self) -> bool:
        self._asked_slot = False
        if not self._has_line:
            return False
        self._slots_held += 1
        self._serve()
        return True

    def _place_came(self) -> None:
        if self._lines[1]:
            self._serve()

    def _ring_later(self, now_s: float) -> None:
        due_s = self._resting[0][0] if self._resting else math.inf
        if self._lines[0] or self._lines[1]:
            is_bulk = not self._lines[0]
            wait = self._bot_wait_s(now_s, is_bulk=is_bulk)
            if is_bulk:
                wait = max(self.share.rest_s(now_s), wait and max(wait, self._bulk_quantum_s))
            if wait > 0:
                due_s = min(due_s, now_s + wait)
        if due_s < self._alarm_s:
            self._alarm_s = due_s
            self._alarms.after(max(0.0, due_s - now_s), self._ring)

    def _ring(self) -> None:
        self._alarm_s = math.inf
        self._serve()

    def _look_again(self, concerns: Callable[[_Entry], bool]) -> None:
        """Let those whom a pause or the end of the channel concerns leave the line."""
        gone: list[_Entry] = []
        for line in self._lines:
            gone += [entry for entry in line if concerns(entry)]
            kept = [entry for entry in line if not concerns(entry)]
            line.clear()
            line.extend(kept)
        gone += [entry for _, _, entry in self._resting if concerns(entry)]
        self._resting = [rest for rest in self._resting if not concerns(rest[2])]
        heapq.heapify(self._resting)
        for entry in gone:
            entry.again()
        self._serve()

    def _sweep_later(self) -> None:
        if not self._sweep_told:
            self._sweep_told = True
            self._alarms.after(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Forget the chats whose bucket is full and whose pause is over."""
        self._sweep_told = False
        now_s = trio.current_time()
        self._full_s = {chat: full_s for chat, full_s in self._full_s.items() if full_s > now_s}
        self._paused_s = {chat: until_s for chat, until_s in self._paused_s.items() if until_s > now_s}
        if self._bot_paused_s <= now_s:
            self._bot_paused_s = -math.inf
        if self._full_s or self._paused_s or self._bot_paused_s > now_s:
            self._sweep_later()


__all__ = ["SendLine"]
