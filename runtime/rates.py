"""Token buckets, as pure rules over one number each.

A bucket of rate r and burst b is kept as the moment at which it will be full again: a take moves that moment on by
1/r, and is allowed while the moment is at most (b − 1)/r ahead (the "generic cell rate algorithm" of ATM networks).
A bucket that is full needs no number, so it needs no memory.
"""

from __future__ import annotations

import attrs

from ..actors.errors import BusError, Code
from ..actors.given import is_number, shown
from ..actors.value import value


@attrs.frozen
class Rate:
    """At most `per_s` sends a second on average, and `burst` at once after a rest.

    Raises:
        BusError: INVALID_MESSAGE, `per_s` is not finite and greater than 0, or `burst` is less than 1.
    """

    per_s: float
    burst: int = 1

    def __attrs_post_init__(self) -> None:
        if not is_number(self.per_s) or self.per_s <= 0:
            raise BusError(
                Code.INVALID_MESSAGE,
                "a rate's per_s must be a number greater than 0",
                given=shown(self.per_s),
            )
        if type(self.burst) is not int or self.burst < 1:
            raise BusError(
                Code.INVALID_MESSAGE,
                "a rate's burst must be a whole number, 1 or more",
                given=shown(self.burst),
            )


@attrs.frozen(kw_only=True)
class RateLimits:
    """What a channel allows; None limits nothing.

    Attributes:
        chat: To each chat that is no group.
        group: To each group chat.
        bot: To all chats together.
    Raises:
        BusError: INVALID_MESSAGE.
    """

    chat: Rate | None = None
    group: Rate | None = None
    bot: Rate | None = None

    def __attrs_post_init__(self) -> None:
        for name, rate in (("chat", self.chat), ("group", self.group), ("bot", self.bot)):
            if not _is_rate(rate):
                raise BusError(
                    Code.INVALID_MESSAGE, f"{name} must be a Rate or None, not {shown(rate)}", field=name
                )


@value
class Chat:
    """Whom the channel counts: several conversations (topics of a group, say) may share one chat."""

    id: str
    is_group: bool = False


def _is_rate(value: object) -> bool:
    return value is None or isinstance(value, Rate)


NO_LIMITS = RateLimits()


def wait_s(rate: Rate, full_s: float, now_s: float) -> float:
    """How long until the bucket gives one more, seconds; 0 if it does now.

    Args:
        rate: Of the bucket.
        full_s: When it will be full again; anything in the past if it is.
        now_s: On the same clock.
    """
    return max(0.0, full_s - (rate.burst - 1) / rate.per_s - now_s)


def after_take(rate: Rate, full_s: float, now_s: float) -> float:
    """When the bucket will be full again after one more is taken."""
    return max(full_s, now_s) + 1 / rate.per_s


def after_return(rate: Rate, full_s: float) -> float:
    """When it will be full again if one that was taken was not used after all."""
    return full_s - 1 / rate.per_s


__all__ = ["NO_LIMITS", "Chat", "Rate", "RateLimits", "after_return", "after_take", "wait_s"]
