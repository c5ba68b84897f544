"""Runs a bot as a program: signals, logs for people, exit codes."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import NoneType
from typing import Final, Literal, cast

import structlog
import trio

from ..actors.errors import BusError, Code
from ..actors.text import clean_text
from .adapter_start import is_mistake
from .app import Runtime
from .argument_checks import check_kind, check_words
from .channel import Adapter
from .collector import calm_collector
from .exit_code import ExitCode
from .logs import set_up_logs
from .retention import Retention
from .settings import METRICS_TOKEN, Effective, load_settings
from .stop_signals import stop_signals
from .topology import Topology

_ADVISED: Final = frozenset({Code.STORE_CORRUPT, Code.STORE_IO})
"""Whose message does not say what to do."""


def run(
    topology: Topology,
    *,
    store: str | Path,
    adapters: Sequence[Adapter] = (),
    durability: Literal["full", "normal"] | None = None,
    shard_count: int | None = None,
    max_inflight: int | None = None,
    max_lane_backlog: int | None = None,
    max_backlog: int | None = None,
    unhandled: Literal["refuse", "park"] = "refuse",
    unsafe_filesystem: Literal["refuse", "allow"] | None = None,
    grace_s: float | None = None,
    retention_s: float | None = None,
    dedupe_horizon_s: float | None = None,
    history_s: float | None = None,
    metrics_port: int | None = None,
    metrics_access: Literal["token", "open"] | None = None,
    metrics_token_env: str = METRICS_TOKEN,
    config: str | Path | None = None,
) -> None:
    """Run a bot until SIGINT, SIGTERM or SIGHUP, also if one comes while it opens; return after a clean stop.

    The first signal stops in good order, a second one cuts the grace time short, a third one ends the process where
    it stands. A handler or adapter that ignores its cancellation, such as one that waits for a thread, is left behind
    `LINGER_S` seconds after the grace time: the message goes back on disk and the process ends with 3.

    The arguments are those of `Runtime.open`, whose `retention` is made of `retention_s`, `dedupe_horizon_s` and
    `history_s`. What is left out comes from the environment (`SHARDLINE_GRACE_S`), else
    from the TOML file that `config` or `SHARDLINE_CONFIG` names, else it is the default. `metrics_token_env` names the
    environment variable that holds the token of the metrics: a token is never an argument.

    Raises:
        SystemExit: 1, the runtime failed (its code and text are on standard error); 2, a setting is not allowed; 3,
            the stop cancelled work: it is on disk and goes on at the next start.
    """
    given = {
        "durability": durability, "shard_count": shard_count, "max_inflight": max_inflight,
        "max_lane_backlog": max_lane_backlog, "max_backlog": max_backlog, "grace_s": grace_s,
        "metrics_port": metrics_port, "metrics_access": metrics_access,
        "retention_s": retention_s, "dedupe_horizon_s": dedupe_horizon_s, "history_s": history_s,
        "unsafe_filesystem": unsafe_filesystem,
    }  # fmt: skip
    try:
        check_kind(config, (str, os.PathLike, NoneType), "config", "a path")
        check_words(metrics_token_env, "metrics_token_env")
        settings = load_settings(given, os.environ, config=None if config is None else Path(config))
    except BusError as error:
        sys.stderr.write(f"shardline: {clean_text(error.message)}\n")
        sys.exit(ExitCode.USAGE)

    async def main(signals: AsyncIterator[int]) -> ExitCode:
        async with Runtime.open(
            topology,
            store=store,
            adapters=adapters,
            durability=cast('Literal["full", "normal"]', settings["durability"].value),
            shard_count=cast("int", settings["shard_count"].value),
            max_inflight=cast("int", settings["max_inflight"].value),
            max_lane_backlog=cast("int", settings["max_lane_backlog"].value),
            max_backlog=cast("int", settings["max_backlog"].value),
            unhandled=unhandled,
            unsafe_filesystem=cast('Literal["refuse", "allow"]', settings["unsafe_filesystem"].value),
            grace_s=float(settings["grace_s"].value),
            retention=Retention(
                messages_s=float(settings["retention_s"].value),
                keys_s=float(settings["dedupe_horizon_s"].value),
                history_s=float(settings["history_s"].value),
            ),
            signals=signals,
        ) as runtime:
            # A system task: what it ends is this very run.
            trio.lowlevel.spawn_system_task(_leave_stuck, runtime)
            async with _watched(runtime, settings, metrics_token_env):
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
        told = str(error) if isinstance(error, BusError) else repr(error)
        if isinstance(error, BusError) and error.code in _ADVISED and "advised" not in error.context:
            told += f". {error.code.meaning} {error.code.action}"
        sys.stderr.write(f"shardline: {told}\n")
        code = ExitCode.FAILURE
    if code is not ExitCode.CLEAN:
        sys.exit(code)


@asynccontextmanager
async def _watched(
    runtime: Runtime, settings: Mapping[str, Effective], token_env: str
) -> AsyncGenerator[None]:
    """Serve metrics and health while the block runs, where a port is set."""
    port = cast("int", settings["metrics_port"].value)
    if not port:
        yield
        return
    try:
        from .watch_server import watch_server  # noqa: PLC0415 (of an extra)
    except ModuleNotFoundError as error:
        raise BusError(
            Code.NOT_FOUND,
            f"metrics_port needs the extra: install shardline[metrics] ({error.name} is missing)",
        ) from error
    is_open = settings["metrics_access"].value == "open"
    token = None if is_open else os.environ.get(token_env)
    if not is_open and token is None:
        raise BusError(
            Code.NOT_AUTHORIZED,
            f"the metrics have a port and no token: set {token_env} to 8 characters or more, or metrics_access to open",
        )
    async with watch_server(runtime, token=token, port=port, is_open=is_open):
        yield


async def _leave_stuck(runtime: Runtime) -> None:
    """End the process once a stop is over its time: a thread that never ends would keep it for ever."""
    stuck = await runtime.wait_stuck()
    structlog.get_logger("shardline").error(
        "runtime.left_stuck",
        turns=stuck.turns,
        sends=stuck.sends,
        store=None if stuck.store is None else str(stuck.store),
    )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ExitCode.CANCELLED_WORK)
