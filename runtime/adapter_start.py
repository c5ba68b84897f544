"""How long an adapter may take to start, and what an adapter's failure is called once it ends the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import trio

from ..actors.errors import BusError, Code, Permanence, error_code_of, permanence_of
from ..actors.leaves import leaves
from .defaults import ADAPTER_START_S
from .store_pause import STORE_TAKES_NOTHING

if TYPE_CHECKING:
    from .edge import EdgeActor

_MAX_TEXT = 300
# What `Edge.accept` raises of its own: the runtime's trouble, and perhaps the very error that ends it.
_OURS = STORE_TAKES_NOTHING | {Code.BUS_CLOSED, Code.FENCED, Code.STORE_CORRUPT, Code.STORE_IO}
_MISTAKES = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, TypeError)


class StartTimeoutError(Exception):
    """An adapter has not called `task_status.started()` in time."""


class Start:
    """One start of an adapter: the task status it gets, and the limit on it.

    Args:
        task_status: Of the edge actor.
        begun: Called when the adapter is ready.
    """

    def __init__(self, task_status: trio.TaskStatus[None], begun: Callable[[], None]) -> None:
        self.is_done = False
        self.is_over = False
        self.scope = trio.CancelScope(deadline=trio.current_time() + ADAPTER_START_S)
        self._task_status = task_status
        self._begun = begun

    def started(self, value: None = None) -> None:
        """The adapter is ready: from now on it may take as long as it likes."""
        self._task_status.started(value)
        self.is_done = True
        self._begun()
        self.scope.deadline = float("inf")

    @property
    def is_pending(self) -> bool:
        """Whether the adapter runs and is not ready."""
        return not (self.is_done or self.is_over)

    def check(self) -> None:
        """See, after the adapter has returned, that it had started.

        Raises:
            StartTimeoutError: it was cancelled at the limit.
            RuntimeError: it returned of its own accord.
        """
        if self.is_done:
            return
        if self.scope.cancelled_caught:
            raise StartTimeoutError(f"task_status.started() was not called within {ADAPTER_START_S:g} s")
        raise RuntimeError("run returned without a call of task_status.started()")


def is_hopeless(error: Exception, edges: Iterable[EdgeActor]) -> bool:
    """Whether one of these never started since the runtime was opened and this is what it failed with last.

    Its own supervisor has tried again by then; to start all channels anew would not help it.
    """
    return any(not edge.has_started and _is_same(edge.failure, error) for edge in edges)


def is_final(error: Exception, edges: Iterable[EdgeActor]) -> bool:
    """Whether this is a first start that reached the limit, or ended with a code that says that no other can be better.

    Whoever opens the runtime has waited long enough, or need not wait at all.
    """
    is_told = error_code_of(error) is Code.BAD_TOKEN or permanence_of(error) is Permanence.PERMANENT
    return (is_told or isinstance(error, StartTimeoutError)) and is_hopeless(error, edges)


def is_of_the_store(error: Exception) -> bool:
    """Whether the store takes nothing at the moment: no channel is to blame, and all goes on once there is room."""
    return isinstance(error, BusError) and error.code in STORE_TAKES_NOTHING


def is_damage(error: Exception) -> bool:
    """Whether the store's file is damaged: no restart mends that, and each would only say it again."""
    return error_code_of(error) is Code.STORE_CORRUPT


def is_of_the_runtime(error: Exception | None) -> bool:
    """Whether the adapter only passed on what the runtime refused."""
    return isinstance(error, BusError) and error.code in _OURS


def failure_of(error: BaseException, edges: Iterable[EdgeActor]) -> BusError | None:
    """Name the channel that an error came from.

    Args:
        error: What ended the runtime.
        edges: Its channels.
    Returns:
        To be raised from `error`: its code, or ADAPTER_FAILED, with the adapter and the error's type and text. None:
        it came from elsewhere.
    """
    for edge in edges:
        if _is_same(edge.failure, error):
            name, what = edge.adapter.name, "failed" if edge.has_started else "cannot start"
            code = error.code if isinstance(error, BusError) else Code.ADAPTER_FAILED
            failure = BusError(
                code,
                f"adapter {name} {what}: {told(error)}",
                adapter=name,
                error_type=type(error).__name__,
            )
            failure.own_code = error.own_code if isinstance(error, BusError) else None
            return failure
    return None


def is_mistake(error: BusError) -> bool:
    """Whether the adapter's code is to blame, so that whoever wrote it wants the traceback."""
    return error.code is Code.ADAPTER_FAILED and any(
        isinstance(leaf, _MISTAKES) for leaf in _leaves(error.__cause__)
    )


def _is_same(failure: Exception | None, error: BaseException) -> bool:
    """Whether this is that failure; a group may have been taken apart and put together again on its way."""
    found = _leaves(failure)
    return bool(found) and list(map(id, found)) == list(map(id, _leaves(error)))


def told(error: BaseException) -> str:
    """The types and texts of an error on one line; what could steer a terminal is left out."""
    told = ", ".join(
        f"{type(leaf).__name__}: {leaf}" if str(leaf) else type(leaf).__name__ for leaf in _leaves(error)
    )
    line = "".join(char if char.isprintable() else "\ufffd" for char in told)
    return line if len(line) <= _MAX_TEXT else line[: _MAX_TEXT - 1] + "…"


def _leaves(error: BaseException | None) -> list[BaseException]:
    return [] if error is None else list(leaves(error))


__all__ = [
    "Start",
    "StartTimeoutError",
    "failure_of",
    "is_damage",
    "is_final",
    "is_hopeless",
    "is_mistake",
    "is_of_the_runtime",
    "is_of_the_store",
    "told",
]
