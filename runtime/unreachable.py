"""Conversations whose recipient cannot be reached: what they are sent next is refused without a request.

A mark holds until something comes in from the conversation, a send to it goes out, or `unreachable_s` have passed. It
is a durable fact, stored with the death of the send that found out. At most `unreachable_marks` of a channel are kept;
the oldest goes first, and costs its conversation one more request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..actors.codec import pack_plain, unpack_plain
from ..actors.errors import BusError, Code
from ..storage.commands import Fact
from .defaults import UNREACHABLE_MARKS, UNREACHABLE_S
from .pauses import NAMESPACE

if TYPE_CHECKING:
    from ..storage.port import Reader

UNREACHABLE_PREFIX: Final = "unreachable:"
MARKING_CODES: Final = frozenset({Code.RECIPIENT_BLOCKED, Code.RECIPIENT_NOT_FOUND, Code.NO_ACCESS})
"""What, when a send died of it, says that the next one would too."""
_LENGTH_US: Final = round(UNREACHABLE_S * 1_000_000)
_FACT_BYTES: Final = 256
_SWEPT_AT_ONCE: Final = 8


class Unreachable:
    """The marks of one channel, by conversation key.

    Args:
        channel: Its name.
        most: How many are kept, > 0.

    Attributes:
        marks: Until when each holds, and why, in the order they end; changed by the methods alone.
    """

    def __init__(self, channel: str, *, most: int = UNREACHABLE_MARKS) -> None:
        self._begin = f"{UNREACHABLE_PREFIX}{channel}:"
        self._most = most
        self.marks: dict[str, tuple[int, Code]] = {}

    def __len__(self) -> int:
        return len(self.marks)

    def __contains__(self, key: str) -> bool:
        return key in self.marks

    def code(self, key: str, now_us: int) -> Code | None:
        """Why nothing is sent to a conversation; None where nothing holds it."""
        until_us, code = self.marks.get(key, (now_us, None))
        # A clock that was set back makes no mark longer than it was.
        return code if now_us < until_us <= now_us + _LENGTH_US else None

    def mark(self, key: str, code: Code, now_us: int) -> tuple[Fact, ...]:
        """Mark a conversation.

        Returns:
            What to store: the mark, and that some old ones are over.
        """
        self.marks.pop(key, None)
        over = self._sweep(now_us)
        self.marks[key] = until_us, _ = now_us + _LENGTH_US, code
        value = pack_plain([until_us, str(code)], limit_bytes=_FACT_BYTES, what="mark")
        return (*over, Fact(NAMESPACE, self._begin + key, value))

    def clear(self, key: str) -> tuple[Fact, ...]:
        """The conversation can be reached.

        Returns:
            What to store.
        """
        if self.marks.pop(key, None) is None:
            return ()
        return (Fact(NAMESPACE, self._begin + key, None),)

    def restore(self, reader: Reader, now_us: int) -> tuple[Fact, ...]:
        """Take up what is stored.

        Returns:
            What to store: the end of those that are over, or one too many.
        """
        over: list[Fact] = []
        found: list[tuple[int, str, Code]] = []
        for key, value in reader.facts(NAMESPACE, self._begin, 2 * self._most):
            mark = read_mark(value)
            if mark is None or not now_us < mark[0]:
                over.append(Fact(NAMESPACE, key, None))
            else:
                found.append((min(mark[0], now_us + _LENGTH_US), key.removeprefix(self._begin), mark[1]))
        found.sort()
        for _, key, _ in found[: -self._most]:
            over.append(Fact(NAMESPACE, self._begin + key, None))
        self.marks = {key: (until_us, code) for until_us, key, code in found[-self._most :]}
        return tuple(over)

    def _sweep(self, now_us: int) -> tuple[Fact, ...]:
        """Forget a few that are over, and the oldest where there is no room."""
        over: list[Fact] = []
        while self.marks and len(over) < _SWEPT_AT_ONCE:
            key, (until_us, _) = next(iter(self.marks.items()))
            if until_us > now_us and len(self.marks) < self._most:
                break
            over += self.clear(key)
        return tuple(over)


def read_mark(value: bytes) -> tuple[int, Code] | None:
    """Until when a stored mark holds, microseconds since 1970 UTC, and why; None where it cannot be read."""
    try:
        match unpack_plain(value, limit_bytes=_FACT_BYTES):
            case [int(until_us), str(code)]:
                return until_us, Code(code)
            case _:
                return None
    except (BusError, ValueError):
        return None


__all__ = ["MARKING_CODES", "UNREACHABLE_PREFIX", "Unreachable", "read_mark"]
