"""The pause of intake while the store takes nothing: a full disk, or a lock that somebody else keeps.

It begins with the first message that the store refuses, and ends with the first one that it takes. Meanwhile a channel
that cannot refuse waits, and offers its message again after 0.1 to 5 seconds; whoever can be told is told the code.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import trio

from ..actors.errors import BusError, Code

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import structlog.typing

    from ..storage.commands import Duplicate, Stored

STORE_TAKES_NOTHING: Final = frozenset({Code.STORE_FULL, Code.STORE_BUSY})
"""Refusals that say: not stored, for sure, and it may be stored later."""

_FIRST_WAIT_S: Final = 0.1
_MAX_WAIT_S: Final = 5.0


class StorePause:
    """Whether the store takes messages in, and when to offer the next.

    Args:
        log: Of the runtime.

    Attributes:
        code: Why it takes none; None while it does.
    """

    __slots__ = ("_is_closed", "_log", "_lot", "_next_s", "_since_s", "_wait_s", "code")

    def __init__(self, log: structlog.typing.FilteringBoundLogger) -> None:
        self.code: Code | None = None
        self._log = log
        self._lot = trio.lowlevel.ParkingLot()
        self._since_s = 0.0
        self._next_s = 0.0
        self._wait_s = 0.0
        self._is_closed = False

    @property
    def age_s(self) -> float:
        """How long it lasts; 0 without one."""
        return 0.0 if self.code is None else trio.current_time() - self._since_s

    @property
    def current_code(self) -> Code | None:
        """Why it takes none, as far as somebody has just tried: whoever waits offers again within `_MAX_WAIT_S`."""
        return self.code if trio.current_time() < self._next_s + _MAX_WAIT_S else None

    def refused(self, code: Code) -> None:
        """The store refused a message with this code; one that says nothing of the disk changes nothing."""
        if code not in STORE_TAKES_NOTHING:
            return
        now_s = trio.current_time()
        if self.code is None:
            self._since_s, self._next_s, self._wait_s = now_s, now_s, 0.0
            self._log.warning("intake.store_refused", bus_error_code=str(code))
        self.code = code
        # Those that were offered together are refused together, which counts once.
        if now_s >= self._next_s:
            self._wait_s = min(_MAX_WAIT_S, self._wait_s * 2 or _FIRST_WAIT_S)
            self._next_s = now_s + self._wait_s

    def stored(self) -> None:
        """The store took a message, or knew it: all may be offered again."""
        if self.code is None:
            return
        self._log.info("intake.store_recovered", bus_error_code=str(self.code), paused_s=round(self.age_s, 3))
        self.code = None
        self._lot.unpark_all()

    def close(self) -> None:
        """Let everybody who waits go."""
        self._is_closed = True
        self._lot.unpark_all()

    def check(self) -> None:
        """Refuse a message whose sender can be told.

        Raises:
            BusError: as the last one was refused, until it is time for the next try.
        """
        if self.code is not None and trio.current_time() < self._next_s:
            raise BusError(self.code, "the store takes no message at the moment")

    async def wait(self) -> None:
        """Return when a message may be offered: at once without a pause, else at its end or for the next try."""
        rest_s = math.inf if self.code is None else self._next_s - trio.current_time()
        if self.code is None or self._is_closed or rest_s <= 0:
            return
        with trio.move_on_after(rest_s):
            await self._lot.park()

    async def offer(self, accept: Callable[[], Awaitable[Stored | Duplicate]]) -> Stored | Duplicate:
        """Offer a message until the store takes it, or refuses it for another reason.

        Raises:
            BusError: that reason; the store's refusal too, once the runtime stops.
        """
        while True:
            if self.code is not None:
                await self.wait()
            try:
                return await accept()
            except BusError as error:
                if self._is_closed or error.code not in STORE_TAKES_NOTHING:
                    raise


__all__ = ["STORE_TAKES_NOTHING", "StorePause"]
