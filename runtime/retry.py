"""When something that failed is tried again: pure arithmetic; the caller draws the random number."""

from __future__ import annotations

import math
from typing import Literal

import attrs

from ..actors.errors import BusError, Code
from ..actors.given import is_number, is_whole, shown
from .defaults import (
    BASE_DELAY_S,
    DELAY_MULTIPLIER,
    MAX_DELAY_S,
    MAX_RETRIES,
    MAX_RETRY_LATER_S,
    MIN_DELAY_S,
)

_TRIED_US = 1000


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """How often, and after which waits, a turn or a send is tried again.

    Attributes:
        max_retries: Tries after the first one, >= 0.
        base_delay_s: Upper bound of the first wait, seconds, > 0.
        multiplier: By which the bound grows with each failure, >= 1.
        max_delay_s: Upper bound of every wait, seconds, > 0.
        jitter: "full" draws each wait between 0 and its bound; "none" waits the bound itself.
    Raises:
        BusError: INVALID_MESSAGE, at the declaration; `field` and `value` are in its context.
    """

    max_retries: int = MAX_RETRIES
    base_delay_s: float = BASE_DELAY_S
    multiplier: float = DELAY_MULTIPLIER
    max_delay_s: float = MAX_DELAY_S
    jitter: Literal["full", "none"] = "full"

    def __attrs_post_init__(self) -> None:
        _check("max_retries", self.max_retries, _is_whole(self.max_retries), "a whole number >= 0")
        _check("base_delay_s", self.base_delay_s, _is_length(self.base_delay_s), "> 0 and finite")
        growing = _is_length(self.multiplier) and self.multiplier >= 1
        _check("multiplier", self.multiplier, growing, ">= 1 and finite")
        _check("max_delay_s", self.max_delay_s, _is_length(self.max_delay_s), "> 0 and finite")
        _check("jitter", self.jitter, _is_jitter(self.jitter), '"full" or "none"')

    @property
    def attempts(self) -> int:
        """Tries in all."""
        return self.max_retries + 1

    def is_spent(self, failures: int) -> bool:
        """Whether `failures` failed tries, the last one included, use the policy up."""
        return failures >= self.attempts

    def delay_s(self, failure: int, unit: float) -> float:
        """Seconds to wait after a failure.

        Args:
            failure: Its number in this generation; the first is 0. Any size.
            unit: A number drawn evenly from [0, 1).
        """
        try:
            grown_s = self.base_delay_s * float(self.multiplier) ** failure
        except OverflowError:
            # Only the exponent can overflow; it does for a multiplier of 1 too, which never grows.
            grown_s = math.inf if self.multiplier > 1 else self.base_delay_s
        bound_s = min(grown_s, self.max_delay_s)
        return bound_s if self.jitter == "none" else max(MIN_DELAY_S, unit * bound_s)


def bounded_later_s(after_s: float) -> float:
    """Seconds to wait where a handler asks for `after_s`: at least `min_delay_s`, at most `max_retry_later_s`."""
    return max(MIN_DELAY_S, min(float(after_s), MAX_RETRY_LATER_S))


def rest_us(due_us: int | None, wait_us: int | None, now_us: int) -> int:
    """What is left of a stored wait, microseconds; never longer than the wait itself, however the clock was set.

    Args:
        due_us: When it ends, wall clock; None is no wait.
        wait_us: How long it was meant to be; None where that is unknown.
        now_us: Wall clock now.
    """
    if due_us is None:
        return 0
    rest = max(0, due_us - now_us)
    return rest if wait_us is None else min(rest, wait_us)


def waiting_us(left_s: float, attempts: int) -> int:
    """How long a send waits for the end of its channel's or chat's pause, microseconds; 0 without one.

    Many may wait for the same moment, when one alone may go: those tried less often go first.

    Args:
        left_s: What is left of the pause, seconds.
        attempts: How often the send was tried.
    """
    return math.ceil(left_s * 1e6) + attempts * _TRIED_US if left_s > 0 else 0


# Declarations come from settings files too, where the annotations do not hold.
def _is_whole(value: object) -> bool:
    return is_whole(value)


def _is_length(value: object) -> bool:
    return is_number(value) and value > 0


def _is_jitter(value: object) -> bool:
    return isinstance(value, str) and value in ("full", "none")


def _check(field: str, value: object, holds: bool, rule: str) -> None:
    if not holds:
        raise BusError(
            Code.INVALID_MESSAGE,
            f"retry policy: {field} must be {rule}, not {shown(value)}",
            field=field,
            value=value,
        )
