"""Adapters that misbehave as a test tells them."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable

import trio

from shardline.adapters.base import Edge
from shardline.testing import FakeChannel

Play = Callable[[trio.TaskStatus[None]], Awaitable[None]]


class Playing(FakeChannel):
    """A fake channel whose runs go as a script says, one play a run; after the last play it runs well.

    Attributes:
        runs_s: When each run began.
    """

    def __init__(self, name: str, *plays: Play, always: Play | None = None) -> None:
        super().__init__(name)
        self.runs_s: list[float] = []
        self._plays = list(plays)
        self._always = always

    async def run(self, edge: Edge, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        self.runs_s.append(trio.current_time())
        play = self._plays.pop(0) if self._plays else self._always
        if play is None:
            await super().run(edge, task_status=task_status)
        else:
            await play(task_status)


def raising(error: BaseException, *, after_s: float | None = None) -> Play:
    """A run that fails: before it is ready, or so long after."""

    async def play(task_status: trio.TaskStatus[None]) -> None:
        if after_s is not None:
            task_status.started()
            await trio.sleep(after_s)
        await trio.lowlevel.checkpoint()
        # A fresh one each time: an exception raised again collects tracebacks.
        raise copy.copy(error)

    return play


async def hanging(task_status: trio.TaskStatus[None]) -> None:
    """A run that is never ready."""
    await trio.sleep_forever()


async def returning(task_status: trio.TaskStatus[None]) -> None:
    """A run that returns before it is ready."""
    await trio.lowlevel.checkpoint()
