"""Time: all of it comes from a `Clock` given to the runtime."""

import time
from typing import Protocol

import attrs
import trio

__all__ = ["Clock", "FakeClock", "SystemClock"]


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for what is waited."""

    def wall_us(self) -> int:
        """Microseconds since 1970 UTC; may jump both ways."""
        ...

    def mono_s(self) -> float:
        """Seconds since an arbitrary start; only grows. The time base of trio's deadlines."""
        ...


@attrs.frozen
class SystemClock:
    """The machine's wall clock and the running trio loop's clock."""

    def wall_us(self) -> int:
        """Microseconds since 1970 UTC."""
        return time.time_ns() // 1000

    def mono_s(self) -> float:
        """trio's current time, seconds."""
        return trio.current_time()


@attrs.define
class FakeClock:
    """A clock for tests under `trio.testing.MockClock`: the wall starts at `start_us` and follows trio's time.

    It starts when it is made, or at its first reading if it was made outside a trio run.
    """

    start_us: int = 1_760_000_000_000_000
    _origin_s: float | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        try:
            self._origin_s = trio.current_time()
        except RuntimeError:  # outside a trio run: the first reading is the start
            self._origin_s = None

    def wall_us(self) -> int:
        """Microseconds since 1970 UTC, as far as this clock's owner says."""
        now_s = trio.current_time()
        if self._origin_s is None:
            self._origin_s = now_s
        return self.start_us + round((now_s - self._origin_s) * 1_000_000)

    def mono_s(self) -> float:
        """trio's current time, seconds."""
        return trio.current_time()

    def jump_wall(self, us: int) -> None:
        """Step the wall clock by `us` microseconds, either way; monotonic time stays."""
        self.start_us += us
