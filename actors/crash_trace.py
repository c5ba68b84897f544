"""Where a crash came through, as a text that costs little whoever writes the log.

An exception handed to the logging is drawn as that likes: structlog's own default, with rich installed, draws a page
with the values of local variables, which are messages and tokens, and the loop stands still for about a second.
"""

from __future__ import annotations

import itertools
import traceback
from collections import deque
from typing import Final, cast

_ERRORS: Final = 16
_FRAMES: Final = 24
_TEXT: Final = 200


def crash_site(error: BaseException) -> str | None:
    """Name the innermost place an exception passed, `module:line`; its text stays out of the log."""
    site: str | None = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        site = f"{frame.f_globals.get('__name__', '?')}:{line}"
    return site


def crash_trace(error: BaseException) -> str:
    """Tell the places an exception passed, then those of its causes and members: bounded, without values or sources.

    Returns:
        At most 16 errors, each with its type, the start of its text escaped, and its 24 innermost places.
    """
    lines: list[str] = []
    seen = {id(error)}
    waiting = deque([("", error)])
    for _ in range(_ERRORS):
        if not waiting:
            break
        role, one = waiting.popleft()
        lines.append(f"{role}{type(one).__name__}: {_text_of(one)}")
        places = deque(traceback.walk_tb(one.__traceback__), _FRAMES)
        lines += [
            f"  {frame.f_globals.get('__name__', '?')}:{line} in {frame.f_code.co_qualname}"
            for frame, line in places
        ]
        around: list[tuple[str, BaseException | None]] = [("caused by ", one.__cause__)]
        if not one.__suppress_context__:
            around.append(("while handling ", one.__context__))
        if isinstance(one, BaseExceptionGroup):
            members = cast("BaseExceptionGroup[BaseException]", one).exceptions
            around += [("member ", member) for member in itertools.islice(members, _ERRORS)]
        for name, other in around:
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                waiting.append((name, other))
    if waiting:
        lines.append("and more")
    return "\n".join(lines)


def _text_of(error: BaseException) -> str:
    try:
        # Escaped: what somebody wrote may be in it, and must not act on a terminal.
        return repr(str(error)[:_TEXT])
    except Exception as failure:
        # An error whose text cannot be had is shown all the same.
        return f"its text raised {type(failure).__name__}"


__all__ = ["crash_site", "crash_trace"]
