"""The single exceptions inside an exception group, however deep it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast


def leaves(exc: BaseException) -> Iterator[BaseException]:
    """What is no group, in order; the exception itself if it is none. A group may be nested beyond any recursion."""
    waiting = [exc]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(reversed(cast("BaseExceptionGroup[BaseException]", one).exceptions))
        else:
            yield one


__all__ = ["leaves"]
