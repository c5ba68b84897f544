"""`shardline run`: a bot out of a module."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Literal

import click
import structlog

from ...actors.errors import BusError
from ..channel import Adapter
from ..defaults import GRACE_S, MAX_BACKLOG, MAX_INFLIGHT, MAX_LANE_BACKLOG
from ..logs import set_up_logs
from ..plugins import load_adapter, settings_of
from ..run import run
from ..settings import Value
from .options import TEXT, Seconds, config_option, store_option
from .paths import check_new_store
from .problem import Problem
from .settings import chosen_settings
from .target import adapters_in, load_module, topology_in
from .upkeep import upkeep_options

_LEVELS = ("debug", "info", "warning", "error")


@click.command("run")
@click.argument("target", type=TEXT, metavar="MODULE:TOPOLOGY")
@store_option
@click.option(
    "--adapter",
    "names",
    type=TEXT,
    multiple=True,
    metavar="NAME",
    help="A channel of the module's `adapters` or of an installed plug-in, by name; may be repeated. Without it all of"
    " the module's.",
)
@click.option(
    "--durability",
    type=click.Choice(["full", "normal"]),
    help="full (the default): accepted survives a power cut; normal: a kill.",
)
@click.option(
    "--max-inflight",
    type=click.IntRange(1, 1_000_000),
    help=f"Messages from the channels under way at once; {MAX_INFLIGHT:,}.",
)
@click.option(
    "--max-lane-backlog",
    type=click.IntRange(1),
    help=f"Messages waiting in one conversation before its next one is refused; {MAX_LANE_BACKLOG:,}.",
)
@click.option(
    "--max-backlog",
    type=click.IntRange(1),
    help=f"Open messages before the channels stop reading; {MAX_BACKLOG:,}.",
)
@click.option(
    "--grace-s",
    type=Seconds(0, 86_400),
    help=f"Seconds a stop waits for turns and sends under way; {GRACE_S:g}.",
)
@click.option(
    "--allow-unsafe-filesystem",
    "allows_unsafe",
    is_flag=True,
    help="Open the store also where its log is known to break: NFS, SMB, 9p, virtiofs, most of FUSE.",
)
@upkeep_options
@config_option
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="The least level shown on standard error.",
)
@click.option("--json-logs", is_flag=True, help="Log lines as JSON objects.")
@click.option("--traceback", is_flag=True, help="Show the whole traceback of an import that fails.")
def command(
    target: str,
    store: Path,
    names: tuple[str, ...],
    durability: Literal["full", "normal"] | None,
    max_inflight: int | None,
    max_lane_backlog: int | None,
    max_backlog: int | None,
    grace_s: float | None,
    allows_unsafe: bool,
    retention_s: float | None,
    dedupe_horizon_s: float | None,
    history_s: float | None,
    metrics_port: int | None,
    metrics_access: Literal["token", "open"] | None,
    metrics_token_env: str,
    config: Path | None,
    log_level: str,
    json_logs: bool,
    traceback: bool,
) -> None:
    """Run a bot until SIGINT or SIGTERM.

    MODULE:TOPOLOGY is a module on the path or in this folder, or a file (path/to/bot.py:topology), and the name of the
    topology in it; `topology` if it is left out. Its channels are the module's `adapters`: a sequence, or a callable
    that returns one.

    What is not given comes from the environment (SHARDLINE_GRACE_S), then from the file of --config.

    Exit code: 0 after a clean stop; 1 the runtime or the import failed; 2 there is nothing to run; 3 the stop cut work
    off, it goes on at the next start.
    """
    check_new_store(store)
    unsafe: Literal["allow"] | None = "allow" if allows_unsafe else None
    given: dict[str, Value | None] = {
        "durability": durability,
        "max_inflight": max_inflight,
        "max_lane_backlog": max_lane_backlog,
        "max_backlog": max_backlog,
        "grace_s": grace_s,
        "unsafe_filesystem": unsafe,
        "retention_s": retention_s,
        "dedupe_horizon_s": dedupe_horizon_s,
        "history_s": history_s,
        "metrics_port": metrics_port,
        "metrics_access": metrics_access,
    }
    chosen_settings(given, config)
    module, name = load_module(target, with_traceback=traceback)
    topology = topology_in(module, name)
    if not topology.freeze().handlers:
        raise Problem(f"{target} handles nothing: declare a handler with `@{name}.on(...)`")
    adapters = _chosen(adapters_in(module), names, module.__name__)
    if not structlog.is_configured():
        set_up_logs(
            level=logging.getLevelNamesMapping()[log_level.upper()], style="json" if json_logs else "lines"
        )
    run(
        topology,
        store=store,
        adapters=adapters,
        durability=durability,
        max_inflight=max_inflight,
        max_lane_backlog=max_lane_backlog,
        max_backlog=max_backlog,
        grace_s=grace_s,
        unsafe_filesystem=unsafe,
        retention_s=retention_s,
        dedupe_horizon_s=dedupe_horizon_s,
        history_s=history_s,
        metrics_port=metrics_port,
        metrics_access=metrics_access,
        metrics_token_env=metrics_token_env,
        config=config,
    )


def _chosen(adapters: list[Adapter], names: tuple[str, ...], module: str) -> list[Adapter]:
    known = {adapter.name: adapter for adapter in adapters}
    if not adapters and not names:
        raise Problem(
            f"{module} has no channel: give it a sequence `adapters`, or name a plug-in with --adapter"
        )
    there = f"it has {', '.join(sorted(known))}" if known else "it has none"
    return [
        known.get(name) or _plug_in(name, f"{module} has no adapter {name}: {there}")
        for name in dict.fromkeys(names)
    ] or adapters


def _plug_in(name: str, missing: str) -> Adapter:
    try:
        return load_adapter(name, settings_of(name, os.environ))
    except BusError as error:
        raise Problem(f"{missing}. {error}") from error


__all__ = ["command"]
