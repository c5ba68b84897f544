"""`shardline telegram-sim`: a server of the Bot API for tests of one's own bot, without a network."""

from __future__ import annotations

from pathlib import Path

import click
import trio

from ...actors.errors import BusError
from ..exit_code import ExitCode
from .problem import Problem
from .screen import notice


@click.command("telegram-sim")
@click.option(
    "--script",
    "path",
    type=click.Path(path_type=Path),
    help="A JSON document: what people say, and how calls go wrong; without it nobody says anything.",
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8081, show_default=True, help="0 takes a free one."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="At the end, what was called, one JSON line each. It must not exist yet.",
)
def command(path: Path | None, port: int, out: Path | None) -> None:
    """Play the Bot API on 127.0.0.1 until SIGINT or SIGTERM.

    Every token is a bot of its own, with the script's updates in its queue. The first line of the output is the
    address.

    Exit code: 0 after a signal; 1 the port is taken; 2 the script cannot be read.
    """
    try:
        from ...adapters.telegram.sim.script import Script, load_script  # noqa: PLC0415 (of an extra)
        from ...adapters.telegram.sim.serve import serve_until_signal  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise Problem(
            f"this needs the extra: install shardline[telegram] ({error.name} is missing)"
        ) from error
    if out is not None and out.exists():
        raise Problem(f"--out {out} exists already")
    try:
        script = Script() if path is None else load_script(path)
    except (BusError, OSError) as error:
        raise Problem(f"--script {path}: {error}") from error
    try:
        lines = trio.run(serve_until_signal, script, port, _say)
    except OSError as error:
        raise Problem(f"--port {port} cannot be used: {error}", ExitCode.FAILURE) from error
    if out is not None:
        out.write_text("".join(f"{line}\n" for line in lines))
        notice(f"{len(lines)} calls in {out}")


def _say(line: str) -> None:
    click.echo(line)


__all__ = ["command"]
