"""Typed errors: each refusal carries a `Code`, found again through causes and exception groups."""

import re
from collections.abc import Iterator
from typing import cast

import trio

from .codes import REGISTRY, Code, CodeEntry, Permanence
from .given import is_number, shown

__all__ = [
    "REGISTRY",
    "BusError",
    "Code",
    "CodeEntry",
    "Permanence",
    "Permanent",
    "RetryLater",
    "error_code_of",
    "own_code_of",
    "permanence_of",
    "retry_later_of",
]

_OWN_CODE = re.compile(r"x\.[a-z0-9_.-]+")


class BusError(Exception):
    """A refusal with a code.

    `context` is for logs and callers: ids, limits, paths; never a token or a message's text. Neither `str` nor
    `repr` shows it.

    Raises:
        BusError: INVALID_MESSAGE, `code` is no `Code`: whoever branches on it could not.
    """

    def __init__(self, code: Code, message: str, /, **context: object) -> None:
        if not _is(code, Code):
            raise BusError(Code.INVALID_MESSAGE, f"the code of a BusError is a Code, not {shown(code)}")
        if not _is(message, str):
            message = shown(message)
        super().__init__(code, message)
        self.code: Code = code
        self.message: str = message
        self.context: dict[str, object] = context
        self.own_code: str | None = None

    def __str__(self) -> str:
        own = "" if self.own_code is None else f" ({self.own_code})"
        return f"{self.code}{own}: {self.message}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.own_code or self.code)!r}, {self.message!r})"


class Permanent(BusError):
    """Raised by user code to end a message without another try.

    Args:
        code: A `Code`, or a code of one's own, `x.<name>` of `[a-z0-9_.-]`; then `.code` is HANDLER_FAILED and
            `.own_code` the own one, kept verbatim in rows.
        message: For people.
    Raises:
        BusError: INVALID_MESSAGE, the own code is malformed.
    """

    def __init__(self, code: Code | str, message: str = "", /, **context: object) -> None:
        if isinstance(code, Code):
            super().__init__(code, message, **context)
            return
        if not _is(code, str) or _OWN_CODE.fullmatch(code) is None:
            raise BusError(
                Code.INVALID_MESSAGE,
                f"the code of a Permanent is a Code, or one of your own, x.<name> of [a-z0-9_.-], not {shown(code)}",
            )
        super().__init__(Code.HANDLER_FAILED, message, **context)
        self.own_code = code
        # What a copy is built from: the own code, not the one it stands for.
        self.args = (code, self.message)


class RetryLater(BusError):
    """Raised by user code to have its turn tried again after a wait of its own choice.

    It counts as a failed try like any other exception; only the wait is its own.

    Args:
        after_s: Seconds, any finite number; the runtime waits at least 0.05 s and at most one day.
        message: For people.
    Raises:
        BusError: INVALID_MESSAGE, `after_s` is no finite number.
    """

    def __init__(self, after_s: float, message: str = "", **context: object) -> None:
        if not is_number(after_s):
            raise BusError(
                Code.INVALID_MESSAGE, f"RetryLater takes a finite number of seconds, not {shown(after_s)}"
            )
        super().__init__(Code.HANDLER_FAILED, message or f"again after {after_s} s", **context)
        self.after_s: float = after_s
        # What a copy is built from.
        self.args = (after_s, self.message)


def error_code_of(exc: BaseException | None) -> Code | None:
    """Find the code of an exception, through causes and groups; in a group a permanent one wins.

    Returns:
        The outermost code, or None: no BusError inside, or it is a cancellation, or no exception at all.
    """
    if not _is(exc, BaseException):
        return None
    found = _leading(exc, set())
    return None if found is None else found.code


def own_code_of(exc: BaseException | None) -> str | None:
    """Find the first own code (`x.<name>`) inside an exception, its causes and groups."""
    return next((error.own_code for error in _bus_errors(exc, set()) if error.own_code is not None), None)


def retry_later_of(exc: BaseException | None) -> RetryLater | None:
    """Find the longest `RetryLater` inside an exception, its causes and groups; None without one."""
    found = (error for error in _bus_errors(exc, set()) if isinstance(error, RetryLater))
    return max(found, key=lambda error: error.after_s, default=None)


def permanence_of(exc: BaseException) -> Permanence:
    """Say whether a second try can help.

    Returns:
        PERMANENT for a `Permanent` anywhere inside; else that of `error_code_of`; TRANSIENT for foreign exceptions.
    """
    if any(isinstance(error, Permanent) for error in _bus_errors(exc, set())):
        return Permanence.PERMANENT
    code = error_code_of(exc)
    return Permanence.TRANSIENT if code is None else code.permanence


def _members(exc: BaseException) -> tuple[BaseException, ...]:
    if not isinstance(exc, BaseExceptionGroup):
        return ()
    return cast("BaseExceptionGroup[BaseException]", exc).exceptions


def _next_in_chain(exc: BaseException) -> BaseException | None:
    if exc.__cause__ is not None:
        return exc.__cause__
    return None if exc.__suppress_context__ else exc.__context__


def _leading(exc: BaseException | None, seen: set[int]) -> BusError | None:
    """The error that speaks for `exc`; `seen` holds ids of visited exceptions, chains may be cyclic.

    It keeps its own stack: how deep groups are nested is the handler's, and Python's stack has an end.
    """
    groups: list[tuple[BaseException, Iterator[BaseException], list[BusError]]] = []
    node = exc
    while True:
        found: BusError | None = None
        while node is not None and id(node) not in seen:
            seen.add(id(node))
            if isinstance(node, BusError):
                found = node
            if found is not None or isinstance(node, trio.Cancelled):
                break
            if members := _members(node):
                groups.append((node, iter(members), []))
                break
            node = _next_in_chain(node)
        node = None
        while groups and node is None:
            group, rest, speaking = groups[-1]
            if found is not None:
                speaking.append(found)
                found = None
            node = next(rest, None)
            if node is None:
                groups.pop()
                if speaking:
                    found = next((error for error in speaking if _is_permanent(error)), speaking[0])
                else:
                    node = _next_in_chain(group)
        if node is None:
            return found


def _bus_errors(exc: BaseException | None, seen: set[int]) -> Iterator[BusError]:
    """Every BusError inside, outermost first; what led to a cancellation is not a cause."""
    waiting = [exc]
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen or isinstance(node, trio.Cancelled):
            continue
        seen.add(id(node))
        if isinstance(node, BusError):
            yield node
        waiting.append(_next_in_chain(node))
        waiting.extend(reversed(_members(node)))


def _is(value: object, kind: type) -> bool:
    # Through `object`: what handlers raise is typed, and no type checker has seen them all.
    return isinstance(value, kind)


def _is_permanent(error: BusError) -> bool:
    return isinstance(error, Permanent) or error.code.permanence is Permanence.PERMANENT
