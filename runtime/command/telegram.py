"""`shardline telegram`: a bot out of a module, on Telegram."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Literal
from urllib.request import getproxies, proxy_bypass

import click
import structlog

from ...actors.errors import BusError, Code
from ..logs import set_up_logs
from ..rates import NO_LIMITS
from ..run import run
from ..topology import Topology
from .demo import counting_bot
from .options import TEXT, config_option, store_option
from .paths import check_new_store
from .problem import Problem
from .target import load_module, topology_in

_TOKEN = "SHARDLINE_TELEGRAM_TOKEN"  # noqa: S105 (the name of a variable)
_LEVELS = ("debug", "info", "warning", "error")


@click.command("telegram")
@store_option
@click.option(
    "--app",
    "target",
    type=TEXT,
    metavar="MODULE:TOPOLOGY",
    help="The bot; without it one that counts and repeats what it is told.",
)
@click.option(
    "--api-base",
    type=TEXT,
    default="https://api.telegram.org",
    show_default=True,
    help="The server of the Bot API.",
)
@click.option(
    "--token-env",
    type=TEXT,
    default=_TOKEN,
    show_default=True,
    metavar="NAME",
    help="The environment variable that holds the token.",
)
@click.option(
    "--adopt-account",
    is_flag=True,
    help="Another bot than the store's takes it over, for good, with its next message.",
)
@click.option(
    "--durability",
    type=click.Choice(["full", "normal"]),
    help="full (the default): accepted survives a power cut; normal: a kill.",
)
@click.option("--no-limits", is_flag=True, help="Send as fast as the server takes it: for tests alone.")
@config_option
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="The least level shown on standard error.",
)
@click.option("--json-logs", is_flag=True, help="Log lines as JSON objects.")
def command(
    store: Path,
    target: str | None,
    api_base: str,
    token_env: str,
    adopt_account: bool,
    durability: Literal["full", "normal"] | None,
    no_limits: bool,
    config: Path | None,
    log_level: str,
    json_logs: bool,
) -> None:
    """Run a bot on Telegram until SIGINT or SIGTERM.

    The token comes from the environment and from nowhere else. A proxy is taken from HTTPS_PROXY (HTTP_PROXY for a
    server without TLS), unless NO_PROXY names the server.

    Exit code: 0 after a clean stop; 1 the runtime, the import or the platform failed; 2 there is nothing to run, or no
    token; 3 the stop cut work off, it goes on at the next start.
    """
    try:
        from ...adapters.telegram import LIMITS, Telegram  # noqa: PLC0415 (of an extra)
        from ...adapters.telegram.api import check_base  # noqa: PLC0415
        from ...adapters.telegram.proxy import proxy_for  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise Problem(
            f"this needs the extra: install shardline[telegram] ({error.name} is missing)"
        ) from error
    check_new_store(store)
    token = os.environ.get(token_env, "").strip()
    if not token:
        raise Problem(f"set the environment variable {token_env} to the bot's token")
    topology = counting_bot() if target is None else _topology(target)
    named = "--api-base"
    try:
        check_base(api_base)
        named = "a variable such as HTTPS_PROXY"
        adapter = Telegram(
            token,
            api_base=api_base,
            proxy=proxy_for(api_base, getproxies(), proxy_bypass),
            adopt_account=adopt_account,
            limits=NO_LIMITS if no_limits else LIMITS,
        )
    except BusError as error:
        raise Problem(f"{token_env if error.code is Code.BAD_TOKEN else named}: {error.message}") from error
    if not structlog.is_configured():
        set_up_logs(
            level=logging.getLevelNamesMapping()[log_level.upper()], style="json" if json_logs else "lines"
        )
    run(topology, store=store, adapters=[adapter], durability=durability, config=config)


def _topology(target: str) -> Topology:
    module, name = load_module(target, with_traceback=False)
    topology = topology_in(module, name)
    if not topology.freeze().handlers:
        raise Problem(f"{target} handles nothing: declare a handler with `@{name}.on(...)`")
    return topology


__all__ = ["command"]
