"""One run of an adapter under the eyes of a check."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

import attrs
import trio
import trio.testing

from ...actors.errors import error_code_of
from ..base import Adapter
from .edge import FakeEdge

LIMIT_S = 10.0
"""How long a check waits for anything."""
STOP_LIMIT_S = 5.0
"""How long an adapter may take to stop."""


async def settled() -> None:
    """Until every task waits for something."""
    with within("a moment in which nothing runs"):
        await trio.testing.wait_all_tasks_blocked()


@contextmanager
def within(what: str, limit_s: float = LIMIT_S) -> Generator[None]:
    """Fail a check whose block takes too long."""
    with trio.move_on_after(limit_s) as scope:
        yield
    assert not scope.cancelled_caught, f"{what}: not within {limit_s:g} seconds"


@attrs.define(eq=False)
class Reading:
    """One run.

    Attributes:
        starts: How often it said that it was ready.
        has_ended: It is over, however it ended.
        has_returned: It ended by itself.
        error: What came out of it.
    """

    adapter: Adapter
    edge: FakeEdge
    starts: int = 0
    has_ended: bool = False
    has_returned: bool = False
    error: Exception | None = None
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    def started(self, value: None = None) -> None:
        """It says that it is ready."""
        self.starts += 1
        self.edge.changed()

    async def serve(self) -> None:
        """Run it to its end."""
        try:
            with self._scope:
                await self.adapter.run(self.edge, task_status=self)
                self.has_returned = True
        except Exception as error:
            self.error = error
        self.has_ended = True
        self.edge.changed()

    async def wait_for(self, count: int) -> None:
        """Wait until so many messages are accepted, or it has ended."""
        edge = self.edge
        with trio.move_on_after(LIMIT_S) as scope:
            await edge.wait_until(lambda: len(edge.accepted) >= count or self.has_ended)
        self.check_error()
        assert not scope.cancelled_caught, (
            f"{len(edge.accepted)} of {count} messages were accepted in {LIMIT_S:g} seconds; {edge.duplicates} came "
            f"under an id that was known, {len(edge.bad)} were called unreadable, {len(edge.refusals)} broke a rule"
            f"{': ' + edge.refusals[0].message if edge.refusals else ''}"
        )

    def check_error(self) -> None:
        """Fail if it has raised."""
        if self.error is not None:
            raise AssertionError(
                f"run raised {self.error!r}, code {error_code_of(self.error)}"
            ) from self.error

    def cancel(self) -> None:
        """End it, as a runtime does that stops."""
        self._scope.cancel()

    async def stop(self) -> None:
        """End it, and fail unless it ends at once, as cancelled."""
        if self.has_ended:
            return
        before_s = trio.current_time()
        self.cancel()
        # Shielded code cannot be cut short: this waits for it, and tells then.
        await self.edge.wait_until(lambda: self.has_ended)
        took_s = trio.current_time() - before_s
        assert took_s < STOP_LIMIT_S, f"run took {took_s:.1f} seconds to stop"
        self.check_error()
        assert not self.has_returned, "run has swallowed the cancellation: it returned"


@asynccontextmanager
async def reading(adapter: Adapter, edge: FakeEdge) -> AsyncGenerator[Reading]:
    """Run an adapter until the block ends; what the block raises comes out as it is."""
    run = Reading(adapter, edge)
    failed: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.serve)
        try:
            yield run
        except Exception as error:
            failed = error
        finally:
            run.cancel()
    if failed is not None:
        raise failed


__all__ = ["LIMIT_S", "STOP_LIMIT_S", "Reading", "reading", "settled", "within"]
