"""An actor that never started: to start all again would not help it, and whoever opens the runtime is told its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..actors.errors import BusError, Code
from .adapter_start import is_of_the_store, told

if TYPE_CHECKING:
    from ..actors.child import ChildStatistics
    from ..actors.supervisor import Supervisor


def never_starts(group: Supervisor, error: Exception) -> bool:
    """Whether a group of actors gave up before all of it had started once, and the store is not to blame."""
    return not group.has_started and not is_of_the_store(error)


def start_failure(root: Supervisor, error: BaseException) -> BusError | None:
    """Name the actor that kept the tree from starting.

    Args:
        root: Of the tree.
        error: What ended the runtime.
    Returns:
        To be raised from `error`: ACTOR_FAILED, with the actor and the error's type and text. None: the tree had
        started, it came from elsewhere, or has a code of its own.
    """
    if root.has_started or error is not root.escalated or isinstance(error, BusError):
        return None
    kind = type(error).__name__
    found = [one for one in _leaves_of(root.statistics()) if one.last_error_type == kind]
    name = max(found, key=lambda one: one.crashes).name if found else root.name
    return BusError(
        Code.ACTOR_FAILED, f"actor {name} cannot start: {told(error)}", actor=name, error_type=kind
    )


def _leaves_of(children: Sequence[ChildStatistics]) -> Iterator[ChildStatistics]:
    for child in children:
        if child.children:
            yield from _leaves_of(child.children)
        else:
            yield child


__all__ = ["never_starts", "start_failure"]
