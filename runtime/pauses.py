"""Pauses that a channel asked for (429): in force at once, and on disk so that a restart keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from ..actors.codec import pack_plain, unpack_plain
from ..actors.errors import BusError, Code
from ..storage.commands import Fact
from ..storage.records import OutboxRecord
from .channel import NotSent, SendOutcome, Sent
from .retry import rest_us

if TYPE_CHECKING:
    from ..storage.port import Reader
    from .send import Send
    from .send_line import SendLine

NAMESPACE: Final = "core"
_PREFIX: Final = "pause:"
_FACT_BYTES: Final = 256
_MOST: Final = 100_000


class Pauses:
    """The pauses of one channel.

    Args:
        channel: Its name.
        line: Where they hold.
        stop: Ends the channel: its credentials are refused.

    Attributes:
        stored: Facts on disk, by key, and when each is over, wall clock.
    """

    def __init__(self, channel: str, line: SendLine[Send], stop: Callable[[], None]) -> None:
        self._channel = channel
        self._line = line
        self._stop = stop
        self.stored: dict[str, int] = {}

    def note(self, outcome: SendOutcome | None, after: OutboxRecord, now_us: int) -> tuple[Fact, ...]:
        """Put what an outcome asks for in force.

        Args:
            outcome: Of the send.
            after: Its row as it will be stored.
            now_us: Wall clock, microseconds since 1970 UTC.
        Returns:
            What to store with the row: a new pause, or that an old one is over.
        """
        if isinstance(outcome, NotSent):
            if outcome.code is Code.BAD_TOKEN:
                self._stop()
            elif outcome.code is Code.RATE_LIMITED and after.wait_us is not None:
                return self.begin(outcome, after.conversation_key, after.wait_us, now_us)
        elif self.stored and isinstance(outcome, Sent):
            keys = (self._key(None), self._key(self._line.chat_id(after.conversation_key)))
            over = [key for key in keys if self.stored.get(key, now_us + 1) <= now_us]
            for key in over:
                del self.stored[key]
            return tuple(Fact(NAMESPACE, key, None) for key in over)
        return ()

    def begin(self, refusal: NotSent, conversation_key: str, wait_us: int, now_us: int) -> tuple[Fact, ...]:
        """Put the pause that a 429 asks for in force.

        Args:
            refusal: Says whom it concerns.
            conversation_key: Whose send or look-up was refused.
            wait_us: How long, microseconds.
            now_us: Wall clock, microseconds since 1970 UTC.
        Returns:
            What to store.
        """
        chat_id = None if refusal.scope == "bot" else self._line.chat_id(conversation_key)
        # A longer one that is on stays, on disk too: two sends may have been under way when it began.
        wait_us = round(self._line.pause(chat_id, wait_us / 1e6) * 1e6)
        key = self._key(chat_id)
        self.stored[key] = due_us = now_us + wait_us
        value = pack_plain([due_us, wait_us], limit_bytes=_FACT_BYTES, what="pause")
        return (Fact(NAMESPACE, key, value),)

    def restore(self, reader: Reader, now_us: int) -> tuple[Fact, ...]:
        """Put the pauses of the last run in force: each for what is left of it, never longer than it was.

        Returns:
            What to store: the end of those that are over.
        """
        over: list[Fact] = []
        begin = f"{_PREFIX}{self._channel}:"
        for key, value in reader.facts(NAMESPACE, begin, _MOST):
            left_us = _left_us(value, now_us)
            if left_us <= 0:
                over.append(Fact(NAMESPACE, key, None))
                continue
            self.stored[key] = now_us + left_us
            self._line.pause(key.removeprefix(begin) or None, left_us / 1e6)
        return tuple(over)

    def _key(self, chat_id: str | None) -> str:
        return f"{_PREFIX}{self._channel}:{chat_id or ''}"


def _left_us(value: bytes, now_us: int) -> int:
    try:
        due_us, wait_us = cast("list[int]", unpack_plain(value, limit_bytes=_FACT_BYTES))
        return rest_us(due_us, wait_us, now_us)
    except (BusError, TypeError, ValueError):
        # No pause that anybody can read: the channel will say so again.
        return 0


__all__ = ["NAMESPACE", "Pauses"]
