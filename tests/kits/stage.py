"""A stage for supervisors: children that do as they are told, and one list of all that happens."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from shardline.actors.restart import Backoff, Restart, RestartBudget, Strategy
from shardline.actors.supervisor import ChildSpec, Supervisor


class Boom(Exception):
    pass


class Stage:
    """Children that do as they are told, and one list of all that happens: `+a` runs, `-a` has ended."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.started_s: list[tuple[str, float]] = []
        self.capture = LogCapture()
        self.log: FilteringBoundLogger = structlog.wrap_logger(
            None, processors=[self.capture], wrapper_class=structlog.make_filtering_bound_logger(0)
        )
        self._orders: dict[str, trio.MemorySendChannel[Exception | None]] = {}
        self._start_faults: dict[str, list[Exception]] = {}
        self._stop_faults: dict[str, Exception] = {}

    def child(
        self,
        name: str,
        restart: Restart = Restart.PERMANENT,
        *,
        escalates: bool = False,
        start_s: float = 0,
        farewell_s: float = 0,
    ) -> ChildSpec:
        """A child that runs until told; it takes `start_s` to start and `farewell_s` to clean up."""

        async def start(*, task_status: trio.TaskStatus[None]) -> None:
            self.events.append(f"+{name}")
            self.started_s.append((name, trio.current_time()))
            self._orders[name], orders = trio.open_memory_channel[Exception | None](1)
            try:
                await trio.sleep(start_s)
                if self._start_faults.get(name):
                    raise self._start_faults[name].pop(0)
                task_status.started()
                order = await orders.receive()
                if order is not None:
                    raise order
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(farewell_s)
                self.events.append(f"-{name}")
                if name in self._stop_faults:
                    raise self._stop_faults.pop(name)

        return ChildSpec(name, start, restart=restart, escalates=escalates)

    def crash(self, name: str, error: Exception | None = None) -> None:
        self._orders[name].send_nowait(error or Boom(name))

    def end(self, name: str) -> None:
        self._orders[name].send_nowait(None)

    def fail_starts(self, name: str, *errors: Exception) -> None:
        self._start_faults[name] = list(errors)

    def fail_stop(self, name: str, error: Exception) -> None:
        self._stop_faults[name] = error

    def supervisor(
        self,
        *children: ChildSpec,
        name: str = "top",
        strategy: Strategy = Strategy.ONE_FOR_ONE,
        budget: RestartBudget = RestartBudget(),
        backoff: Backoff = Backoff(),
    ) -> Supervisor:
        return Supervisor(name, children, strategy=strategy, budget=budget, backoff=backoff, log=self.log)

    def take(self) -> str:
        """The events since the last look."""
        events = " ".join(self.events)
        self.events.clear()
        return events

    def lines(self, event: str) -> list[dict[str, object]]:
        return [dict(line) for line in self.capture.entries if line["event"] == event]


@asynccontextmanager
async def running(supervisor: Supervisor) -> AsyncGenerator[None, None]:
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            await nursery.start(supervisor.run)
            yield
            nursery.cancel_scope.cancel()


async def escalation_of(
    run: Callable[[], Awaitable[None]], drive: Callable[[], Awaitable[None]]
) -> BaseException:
    """Run until an exception comes out, `drive` beside it."""
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive)
            with pytest.raises(Exception) as caught:  # noqa: PT011
                await run()
            nursery.cancel_scope.cancel()
    return caught.value


async def settle() -> None:
    """Past every back-off of these tests, but within one period."""
    await trio.sleep(8)


async def crash_after(stage: Stage, name: str, delay_s: float) -> None:
    await trio.sleep(delay_s)
    stage.crash(name)


def states(supervisor: Supervisor) -> dict[str, str]:
    return {child.name: child.state.value for child in supervisor.statistics()}
