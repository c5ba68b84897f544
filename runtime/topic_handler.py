"""The actor of one topic: the user's handlers, their concurrency and time limits."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

import trio

from .context import Context
from .context_surroundings import Surroundings
from .pool import WorkerPool
from .topology import HandlerSpec
from .tracing import Tracing
from .turn import Turn
from .turn_breaker import TurnBreaker

if TYPE_CHECKING:
    from .services import Services

current_turn: ContextVar[Context | None] = ContextVar("shardline_turn", default=None)
"""The turn this task runs in, if any: publishing from inside a turn takes no token."""


class TopicHandlerActor:
    """Runs the turns of one topic.

    Args:
        topic: Its name.
        handlers: By channel; the largest concurrency among them counts for the topic.
        surroundings: What contexts may ask.
        breakers: By channel, as the handlers; a handler without one is not in it.
        tracing: Entered around each turn.
    """

    def __init__(
        self,
        topic: str,
        handlers: list[HandlerSpec],
        surroundings: Surroundings,
        breakers: Mapping[str | None, TurnBreaker],
        tracing: Tracing | None = None,
    ) -> None:
        self.topic = topic
        self.breakers = breakers
        self.pool: WorkerPool[Turn] = WorkerPool(max(spec.concurrency for spec in handlers), self._run_turn)
        self._surroundings = surroundings
        self._tracing = tracing

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run turns until cancelled; a turn under way is then cancelled and told so."""
        await self.pool.run(task_status=task_status)

    async def _run_turn(self, turn: Turn) -> None:
        context = turn.context = Context(
            turn.row.message,
            turn.row.record,
            stored_state=turn.stored_state,
            deadline_s=turn.due_s,
            surroundings=self._surroundings,
            rest=turn.row.rest,
        )
        current_turn.set(context)
        try:
            if self._tracing is None:
                await turn.handler.function(context, turn.row.message)
            else:
                with self._tracing.turn(turn.row.message, turn.row.record.claim):
                    await turn.handler.function(context, turn.row.message)
            context.seal()
        finally:
            # The worker outlives its turns.
            current_turn.set(None)


def turn_here(services: Services) -> str | None:
    """The conversation whose turn the calling task is in; None outside the turns of this runtime."""
    context = current_turn.get()
    if context is None or context.is_ended:
        return None
    shards, shard = services.shards, context.record.shard
    # Another runtime of this process may have conversations of the same name.
    is_ours = shard < len(shards) and any(turn.context is context for turn in shards[shard].inbox.turns)
    return context.message.conversation_key if is_ours else None


def is_in_turn() -> bool:
    """Whether the calling task is inside a turn that has not ended."""
    context = current_turn.get()
    return context is not None and not context.is_ended
