"""The two ends of a runtime's life, as its user meets them: the block may begin; one exception comes out.

An exception that an adapter caused says whose it was, and one that kept an actor from starting which.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import attrs
import trio

from .actor_start import start_failure
from .adapter_start import failure_of

if TYPE_CHECKING:
    from ..actors.supervisor import Supervisor
    from .edge import EdgeActor


@attrs.frozen
class Begun:
    """A task status that lets somebody begin."""

    event: trio.Event

    def started(self, value: None = None) -> None:
        """All is up."""
        self.event.set()


def ending_of(
    group: BaseExceptionGroup[BaseException], root: Supervisor, edges: Iterable[EdgeActor]
) -> BaseException:
    """The one exception of a group, however deep, else the group; that of an adapter, or of a start, gets a name.

    Returns:
        To be raised as it is: its cause is set, and the group stays out of tracebacks.
    """
    error = _unwrapped(group)
    failure = failure_of(error, edges) or start_failure(root, error)
    if failure is not None:
        failure.__cause__ = error
        return failure
    error.__suppress_context__ = True
    return error


def _unwrapped(group: BaseExceptionGroup[BaseException]) -> BaseException:
    if len(group.exceptions) != 1:
        return group
    only = group.exceptions[0]
    if isinstance(only, BaseExceptionGroup):
        return _unwrapped(cast("BaseExceptionGroup[BaseException]", only))
    return only


__all__ = ["Begun", "ending_of"]
