"""Cancelling a call at one checkpoint after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import attrs
import trio


@attrs.define(eq=False)
class CancelAt(trio.abc.Instrument):
    """Cancels `scope` when `task`, or with None any task, gives way for the N-th time; 0 is before the call begins."""

    nth: int
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    task: trio.lowlevel.Task | None = None
    steps: int = 0

    @property
    def is_reached(self) -> bool:
        return self.steps >= self.nth

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.task is None or task is self.task:
            self.steps += 1
            if self.steps == self.nth:
                self.scope.cancel()


def all_cuts(*, first: int = 0, stride: int = 1) -> Iterator[CancelAt]:
    """One after the other, until one was not reached any more: the call had ended."""
    cut = CancelAt(first)
    yield cut
    while cut.is_reached:
        cut = CancelAt(cut.nth + stride)
        yield cut


async def run_cut(cut: CancelAt, call: Callable[[], Awaitable[object]], *, anywhere: bool = False) -> bool:
    """Run a call under a cut, at a checkpoint of its own task or of any; whether it ended by itself."""
    cut.task = None if anywhere else trio.lowlevel.current_task()
    if cut.nth == 0:
        cut.scope.cancel()
    trio.lowlevel.add_instrument(cut)
    try:
        with cut.scope:
            await call()
            return True
    finally:
        trio.lowlevel.remove_instrument(cut)
    return False
