"""Runs a bot as a program: signals, logs for people, exit codes."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import AsyncIterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Literal

import structlog
import trio

from ..actors.errors import BusError
from .adapter_start import is_mistake
from .app import Runtime
from .channel import Adapter
from .collector import calm_collector
from .defaults import GRACE_S, MAX_INFLIGHT, SHARD_COUNT
from .logs import set_up_logs
from .stop_signals import stop_signals
from .topology import Topology


class ExitCode(IntEnum):
    """What a command's end means."""

    CLEAN = 0
    FAILURE = 1
    USAGE = 2
    CANCELLED_WORK = 3
    NOT_YET_DONE = 4


def run(
    topology: Topology,
    *,
    store: str | Path,
    adapters: Sequence[Adapter] = (),
    durability: Literal["full", "normal"] = "full",
    shard_count: int = SHARD_COUNT,
    max_inflight: int = MAX_INFLIGHT,
    unhandled: Literal["refuse", "park"] = "refuse",
    grace_s: float = GRACE_S,
) -> None:
    """Run a bot until SIGINT, SIGTERM or SIGHUP, also if one comes while it opens; return after a clean stop.

    The first signal stops in good order, a second one cuts the grace time short, a third one ends the process where
    it stands. A handler or adapter that ignores its cancellation, such as one that waits for a thread, is left behind
    `LINGER_S` seconds after the grace time: the message goes back on disk and the process ends with 3.

    The arguments are those of `Runtime.open`.

    Raises:
        SystemExit: 1, the runtime failed (its code and text are on standard error); 3, the stop cancelled work: it is
            on disk and goes on at the next start.
    """

    async def main(signals: AsyncIterator[int]) -> ExitCode:
        async with Runtime.open(
            topology,
            store=store,
            adapters=adapters,
            durability=durability,
            shard_count=shard_count,
            max_inflight=max_inflight,
            unhandled=unhandled,
            grace_s=grace_s,
            signals=signals,
        ) as runtime:
            # A system task: what it ends is this very run.
            trio.lowlevel.spawn_system_task(_leave_stuck, runtime)
            await runtime.serve()
        return ExitCode.CANCELLED_WORK if runtime.has_cancelled_work else ExitCode.CLEAN

    async def main_with_signals() -> ExitCode:
        with stop_signals(exit_code=ExitCode.CANCELLED_WORK) as signals:
            return await main(signals)

    calm_collector()
    if not structlog.is_configured():
        set_up_logs(level=logging.INFO)
    try:
        code = trio.run(main_with_signals)
    except (BusError, OSError) as error:
        # What an operator can do something about; anything else is a bug and keeps its traceback.
        if isinstance(error, BusError) and is_mistake(error):
            traceback.print_exception(error.__cause__)
        sys.stderr.write(f"shardline: {error if isinstance(error, BusError) else repr(error)}\n")
        code = ExitCode.FAILURE
    if code is not ExitCode.CLEAN:
        sys.exit(code)


async def _leave_stuck(runtime: Runtime) -> None:
    """End the process once a stop is over its time: a thread that never ends would keep it for ever."""
    stuck = await runtime.wait_stuck()
    structlog.get_logger("shardline").error("runtime.left_stuck", turns=stuck.turns, sends=stuck.sends)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ExitCode.CANCELLED_WORK)
