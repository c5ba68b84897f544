"""Canonical names: what an id, a topic, a group or a channel may be called."""

import re

from .errors import BusError, Code
from .given import shown

__all__ = [
    "DLQ_SUFFIX",
    "WHITE_SPACE",
    "canonical",
    "check_name",
    "check_topic",
    "shown",
]

DLQ_SUFFIX = ".DLQ"
"""The one reserved suffix: `{topic}.DLQ` takes what gave up."""

WHITE_SPACE = (
    "\u0009\u000a\u000b\u000c\u000d\u0020\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode White_Space, 25 characters. Not str.isspace: that one adds U+001C to U+001F."""

_SPACES = frozenset(WHITE_SPACE)
_MAX_TOPIC_CHARS = 128
_TOPIC = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+){0,7}")
_NAME = re.compile(r"(?!.*(?:__|\.\.))[a-z0-9][a-z0-9_.-]{0,63}")


def canonical(value: str, what: str) -> str:
    """Check an id, key or name: text, not empty, no outer white space, valid Unicode.

    Args:
        value: As it came.
        what: The field's name, for the error.
    Returns:
        `value`, unchanged.
    Raises:
        BusError: INVALID_MESSAGE.
    """
    # What nearly every value is: a message has some ten of them.
    if type(value) is str and value.isascii() and value and value[0] > " " and value[-1] > " ":
        return value
    if not _is_text(value):
        raise BusError(Code.INVALID_MESSAGE, f"{what} must be text, not {type(value).__name__}", field=what)
    if not value:
        raise BusError(Code.INVALID_MESSAGE, f"{what} is empty", field=what)
    if value[0] in _SPACES or value[-1] in _SPACES:
        raise BusError(Code.INVALID_MESSAGE, f"{what} starts or ends with white space", field=what)
    if not value.isascii():
        _check_encodable(value, what)
    return value


def check_topic(topic: str, *, allow_system: bool = False) -> str:
    """Check a topic's name: 1-8 segments of `[a-z0-9_-]`, at most 128 characters, perhaps one `.DLQ` after them.

    Args:
        topic: As it came.
        allow_system: `system.*` belongs to the runtime; only it passes True.
    Returns:
        `topic`, unchanged.
    Raises:
        BusError: INVALID_TOPIC.
    """
    if not _is_text(topic):
        raise BusError(Code.INVALID_TOPIC, f"a topic must be text, not {type(topic).__name__}")
    # The suffix is not counted, so that every topic can have its dead letters.
    base = topic.removesuffix(DLQ_SUFFIX)
    if len(base) > _MAX_TOPIC_CHARS:
        raise BusError(Code.INVALID_TOPIC, f"the topic has {len(base)} characters, at most 128 are allowed")
    if _TOPIC.fullmatch(base) is None:
        raise BusError(
            Code.INVALID_TOPIC,
            f"topic {shown(topic)} must be 1 to 8 segments of [a-z0-9_-] joined by dots",
            topic=shown(topic),
        )
    if not allow_system and (base == "system" or base.startswith("system.")):
        raise BusError(
            Code.INVALID_TOPIC, f"topic {topic!r} is reserved: system.* is the runtime's", topic=topic
        )
    return topic


def check_name(name: str, what: str) -> str:
    """Check the name of a group, consumer or channel: `[a-z0-9][a-z0-9_.-]{0,63}` without `__` and `..`.

    Returns:
        `name`, unchanged; it is safe as one part of a path.
    Raises:
        BusError: INVALID_MESSAGE.
    """
    if not _is_text(name) or _NAME.fullmatch(name) is None:
        raise BusError(
            Code.INVALID_MESSAGE,
            f"{what} {shown(name)} must be 1 to 64 of [a-z0-9_.-], start with a letter or digit, without '__' and '..'",
            field=what,
        )
    return name


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _check_encodable(value: str, what: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BusError(Code.INVALID_MESSAGE, f"{what} holds a lone surrogate", field=what) from error
