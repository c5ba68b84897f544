"""How fast, how often, how long: the numbers of the channel and the pure rules over them."""

from __future__ import annotations

from typing import Final

import attrs

from ...runtime.rates import Rate, RateLimits

LIMITS: Final = RateLimits(chat=Rate(1.0, burst=3), group=Rate(20 / 60, burst=5), bot=Rate(30.0))
"""What the platform's FAQ names: 1/s to a chat, with short bursts, 20 a minute to a group, 30/s in all."""

SENDS: Final = 64
"""Sends under way at once; only a server of one's own is asked for so many, for the platform's limits allow 30/s."""

POLL_S: Final = 50
"""How long a poll stays open, seconds; the server takes at most 50."""
PAGE: Final = 100
POLL_MARGIN_S: Final = 10.0
"""How much longer than the poll the answer is waited for."""
EMPTY_S: Final = 0.5
"""A poll that ends sooner and with nothing is not repeated at once, seconds: some servers keep none open."""

CONFLICT_S: Final = 60.0
"""How long another consumer is taken for one that is about to end."""
CONFLICT_PAUSE_S: Final = 3.0
"""The server spaces such answers by so much; asking more often brings nothing."""
COURTESY_S: Final = 5.0
"""How long a call that the start can do without is waited for."""

BUTTONS_S: Final = 2.0
"""How long a handler may take to answer a button by itself, seconds."""
BUTTON_CALL_S: Final = 5.0
BUTTON_CALLS: Final = 8
"""Answers to buttons under way at once: sends have the other connections."""
BUTTONS: Final = 256
"""Buttons that wait for an answer at once; more are left as they are."""

_BASE_S: Final = 0.5
_MOST_S: Final = 30.0

FLOOD_CHATS: Final = 3
FLOOD_WINDOW_S: Final = 10.0


def poll_pause_s(failures: int, chance: float) -> float:
    """How long to wait after a poll that failed.

    Args:
        failures: One after another, >= 1.
        chance: From 0 to 1, the jitter.
    """
    most = min(_MOST_S, _BASE_S * (1 << min(failures, 10)))
    return most * (0.5 + 0.5 * chance)


def conflict_pause_s(chance: float) -> float:
    """How long to wait after a 409: never less than the server's own spacing."""
    return CONFLICT_PAUSE_S * (1.0 + chance)


@attrs.frozen
class Floods:
    """Chats that were answered 429 of late: the answer does not say whether the chat or the bot was too fast.

    Attributes:
        seen: (when, chat), the oldest first; seconds of one monotonic clock.
    """

    seen: tuple[tuple[float, str], ...] = ()

    def after(self, chat: str, now_s: float) -> Floods:
        """With one more."""
        kept = tuple(one for one in self.seen if one[0] > now_s - FLOOD_WINDOW_S and one[1] != chat)
        return Floods((*kept[-FLOOD_CHATS:], (now_s, chat)))

    @property
    def is_bots(self) -> bool:
        """Whether so many chats are concerned that it is the bot."""
        return len(self.seen) >= FLOOD_CHATS


__all__ = [
    "BUTTONS",
    "BUTTONS_S",
    "BUTTON_CALLS",
    "BUTTON_CALL_S",
    "CONFLICT_PAUSE_S",
    "CONFLICT_S",
    "COURTESY_S",
    "EMPTY_S",
    "LIMITS",
    "PAGE",
    "POLL_MARGIN_S",
    "POLL_S",
    "SENDS",
    "Floods",
    "conflict_pause_s",
    "poll_pause_s",
]
