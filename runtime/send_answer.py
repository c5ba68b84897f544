"""What an adapter answered, as it can be stored: an answer that breaks a rule costs itself, never the runtime. Pure."""

from __future__ import annotations

import math
from typing import Final, TypeGuard

import attrs

from ..actors.errors import Code, Permanence
from ..actors.text import clean_text
from .channel import NotSent, SendOutcome, Sent, Uncertain
from .defaults import MAX_PAUSE_S
from .rates import Chat

_MAX_ID_CHARS: Final = 1_000
_MAX_TEXT_CHARS: Final = 500


def checked_answer(answer: object) -> SendOutcome:
    """Read what `send` or `reconcile` returned.

    Args:
        answer: Anything.
    Returns:
        The answer itself where it keeps every rule. Else the nearest that does: text without lone surrogates and cut
        to length, a pause from 0 to `max_pause_s` or none. What tells nothing is uncertain: no outcome at all, a
        `NotSent` whose code or permanence is none, what cannot be read without an error.
    """
    try:
        return _checked(answer)
    except Exception as error:
        # Its own methods are run to read it, and they may do anything.
        return Uncertain(f"the adapter's answer cannot be read: {type(error).__name__}")


def is_chat(answer: object) -> TypeGuard[Chat]:
    """Whether what `chat_of` answered is a chat; its id has a character at least, and can be stored."""
    if not isinstance(answer, Chat) or not _is(answer.id, str):
        return False
    return bool(answer.id) and clean_text(answer.id) == answer.id


def _checked(answer: object) -> SendOutcome:
    match answer:
        case Sent(platform_message_id=identity):
            if identity is None or (type(identity) is str and identity.isascii() and len(identity) < 100):
                return answer
            return Sent(_text(identity, _MAX_ID_CHARS), bool(answer.deduped))
        case NotSent():
            return _checked_refusal(answer)
        case Uncertain(reason=reason):
            said = _text(reason, _MAX_TEXT_CHARS)
            return answer if said == reason else Uncertain(said)
        case _:
            return Uncertain(f"the adapter answered {type(answer).__name__}")


def _checked_refusal(answer: NotSent) -> SendOutcome:
    if not _is(answer.code, Code) or not _is(answer.permanence, Permanence):
        return Uncertain("the adapter answered NotSent without a code or permanence")
    after_s, text = _pause(answer.retry_after_s), _text(answer.text, _MAX_TEXT_CHARS)
    max_text = answer.max_text if type(answer.max_text) is int and answer.max_text > 0 else None
    if after_s == answer.retry_after_s and text == answer.text and max_text == answer.max_text:
        return answer
    return attrs.evolve(answer, retry_after_s=after_s, text=text, max_text=max_text)


def _pause(after_s: object) -> float | None:
    if not isinstance(after_s, int | float) or isinstance(after_s, bool):
        return None
    if isinstance(after_s, float) and not math.isfinite(after_s):
        return None
    # Bounded first: an integer may be too large for a float.
    return float(max(0, min(after_s, MAX_PAUSE_S)))


def _text(value: object, limit: int) -> str:
    """A text as it is; of anything else what it prints as."""
    return clean_text(value if isinstance(value, str) else str(value))[:limit]


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind)


__all__ = ["checked_answer", "is_chat"]
