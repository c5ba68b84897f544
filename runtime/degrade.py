"""When a refused send is tried once more without a thread, a reply or formatting, and what then counts. Pure."""

from __future__ import annotations

from typing import Final, TypeGuard

import attrs

from ..actors.errors import Code, Permanence
from .channel import ChannelCaps, NotSent, SendOutcome

NOT_NOW: Final = (Code.RATE_LIMITED, Code.BAD_TOKEN)
"""Refusals that tell nothing of what was asked: it may be asked again."""


def can_degrade(answer: object, caps: ChannelCaps) -> TypeGuard[NotSent]:
    """Whether the adapter names something to give up that its caps declare."""
    return isinstance(answer, NotSent) and answer.degrade is not None and answer.degrade in caps.degradations


def answer_of_two(first: NotSent, second: SendOutcome) -> SendOutcome:
    """What became of a send that was refused, and then sent without what was refused.

    Returns:
        The second answer where the send got further with it, or may not happen now; else the first, for good.
    """
    if isinstance(second, NotSent) and second.permanence is Permanence.PERMANENT:
        if second.code not in NOT_NOW:
            return attrs.evolve(first, permanence=Permanence.PERMANENT, retry_after_s=None)
    return second


__all__ = ["NOT_NOW", "answer_of_two", "can_degrade"]
